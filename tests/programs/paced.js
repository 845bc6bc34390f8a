// Values that are read at a steady rate, most of them never: for tests of curves, and of limits that follow
// from curves.
//   node paced.js VALUES PER_SECOND SECONDS
// Makes VALUES values of 4 KiB in a Map, and prints `ready pid=P`. Then it reads and checks PER_SECOND
// values a second, for SECONDS or until its standard input ends. All reads but one of 60,000 are evenly
// spread over the first half of the values. If it is late, it catches up.
'use strict';

const [count, rate, seconds] = process.argv.slice(2).map(Number);
const hot = count >> 1;
const table = new Map();
for (let number = 0; number < count; number++) {
  table.set(number, new Float64Array(512).fill(number));
}

let state = 88172645463325252n;
const mask = (1n << 64n) - 1n;
function below(limit) {
  state ^= (state << 13n) & mask;
  state ^= state >> 7n;
  state ^= (state << 17n) & mask;
  return Number(((state >> 32n) * BigInt(limit)) >> 32n);
}

console.log(`ready pid=${process.pid}`);
const begin = process.hrtime.bigint();
let done = 0;
function work() {
  const passed = Number(process.hrtime.bigint() - begin) / 1e9;
  for (; done < Math.min(passed, seconds) * rate; done++) {
    const number = done % 60000 ? below(hot) : below(count);
    if (table.get(number)[3] !== number) {
      console.error(`value ${number} is wrong`);
      process.exit(99);
    }
  }
  if (passed >= seconds) {
    console.log(`asked ${done}`);
    process.exit(0);
  }
}
setInterval(work, 20);
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
