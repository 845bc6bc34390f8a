<?php
// A service of `bench services`, by php-fpm: the value of the key in the query, from one of many files that opcache holds.
$key = (int) $_SERVER['QUERY_STRING'];
$each = 256;
$values = include __DIR__ . '/values' . intdiv($key, $each) . '.php';
header('Content-Type: text/plain');
echo $values[$key % $each];
