<?php
// A service of `bench services`, by php-fpm: it answers with the value of the key in the query. The values
// are in many PHP files, which opcache keeps in memory.
$key = (int) $_SERVER['QUERY_STRING'];
$each = 256;
$values = include __DIR__ . '/values' . intdiv($key, $each) . '.php';
header('Content-Type: text/plain');
echo $values[$key % $each];
