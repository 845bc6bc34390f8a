// Builds, drops and checks objects, strings, typed arrays and maps. Prints a checksum.
//   node heap.js [KEYS [ROUNDS]]
'use strict';

const keys = Number(process.argv[2] || 300000);
const rounds = Number(process.argv[3] || 4);

function mix(x) {
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
}

function value(key) {
  return { key, text: mix(key).toString(16).repeat(4 + (key % 7)), list: [key, mix(key), key / 2] };
}

function fail(what) {
  console.error(what);
  process.exit(99);
}

const kept = new Map();
const buffers = [];
let sum = 0;
for (let round = 0; round < rounds; round++) {
  for (let i = 0; i < keys; i++) {
    const key = mix(i * rounds + round);
    const fresh = value(key);
    sum = (sum + fresh.text.length) >>> 0;
    if (i % rounds === round) kept.set(key, fresh);
  }
  const buffer = new Uint32Array(2 * 1024 * 1024);
  for (let i = 0; i < buffer.length; i++) buffer[i] = mix(i + round);
  buffers.push(buffer);
  for (const [key, got] of kept) {
    const want = value(key);
    if (got.text !== want.text || got.list[1] !== want.list[1]) fail(`wrong value of key ${key}`);
    sum = (sum + mix(key)) >>> 0;
  }
}
buffers.forEach((buffer, round) => {
  for (let i = 0; i < buffer.length; i++) {
    if (buffer[i] !== mix(i + round)) fail(`wrong word ${i} of buffer ${round}`);
  }
});
console.log(`OK kept=${kept.size} checksum=${sum.toString(16)}`);

// Prints operations that the kernel refuses, and the error of each.
const fs = require('fs');
const refused = [() => fs.openSync('/nowhere/x'), () => fs.readFileSync('/'), () => fs.mkdirSync('/tmp'), () => process.kill(1 << 30)];
for (const call of refused) {
  try {
    call();
    console.log('done');
  } catch (error) {
    console.log(error.syscall, error.code, error.errno);
  }
}
// Prints each kind of mapping once: rights, flags and the mapped file. Addresses and numbers of mappings
// differ from run to run.
const kinds = new Set();
let head = '';
for (const line of fs.readFileSync('/proc/self/smaps', 'utf8').split('\n')) {
  const words = line.trim().split(/ +/);
  if (/^[0-9a-f]+-[0-9a-f]+$/.test(words[0])) head = [words[1], ...words.slice(5)].join(' ');
  else if (words[0] === 'VmFlags:') kinds.add([head, ...words.slice(1)].join(' '));
}
console.log([...kinds].sort().join('\n'));
