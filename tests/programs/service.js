// A service of `bench services`: `node service.js PORT KEYS WORDS`. GET /KEY answers with the value of a key, from a Map of objects.
'use strict';
const http = require('http');

const [port, keys, words] = process.argv.slice(2).map(Number);

// Returns a text of `words` times 8 characters, in which each group of eight characters stands twice. The
// benchmark computes the same text.
function value(key) {
  let state = (Math.imul(key, 2654435761 | 0) + 12345) >>> 0;
  const text = Buffer.alloc(words * 8);
  for (let at = 0; at < words * 8; at += 16) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const word = state.toString(16).padStart(8, '0');
    text.write(word + word, at, 'latin1');
  }
  return text.toString('latin1');
}

const values = new Map();
for (let key = 0; key < keys; key++) {
  values.set(key, { id: key, text: value(key), tags: [key % 7, key % 11] });
}

http.createServer((request, response) => {
  const body = values.get(Number(request.url.slice(1))).text;
  response.writeHead(200, { 'Content-Length': body.length });
  response.end(body, 'latin1');
}).listen(port, '127.0.0.1');
