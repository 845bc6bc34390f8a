#!/usr/bin/env python3
# A pre-fork server: it reads a table into its memory, listens, forks workers that inherit table and
# socket, and waits for them. A worker answers one request for each connection; request and answer are one
# line each:
#
#   prefork.py MIB WORKERS      prints "ready PORT PID PID...", of itself and the workers, and goes on until it is ended
#
#   check       whether all of the table is what was read: "right"
#   grow MIB    the worker keeps so much more for itself, and reads all that it keeps 20 times a second; says how much it is
import os, random, socket, sys, threading, time

BLOCK = 64 << 10


def block(number):
    noise = random.Random(number).randbytes(BLOCK // 4)
    return noise + bytes([number & 255]) * (BLOCK - len(noise))


def table(mib):
    memory = bytearray(mib << 20)
    for number in range(mib * 16):
        memory[number * BLOCK : (number + 1) * BLOCK] = block(number)
    return memory


def is_right(memory):
    return all(memory[at : at + BLOCK] == block(at // BLOCK) for at in range(0, len(memory), BLOCK))


def use(kept, parent):
    while True:
        if os.getppid() != parent:
            os._exit(1)
        for one in list(kept):
            one[::4096]
        time.sleep(0.05)


def work(listener, memory, parent):
    kept = []
    threading.Thread(target=use, args=(kept, parent), daemon=True).start()
    while True:
        client, _ = listener.accept()
        with client, client.makefile("rw") as lines:
            word, *numbers = lines.readline().split()
            if word == "grow":
                kept.extend(bytearray(os.urandom(1 << 20)) for _ in range(int(numbers[0])))
                answer = str(len(kept))
            else:
                answer = "right" if is_right(memory) else "wrong"
            lines.write(f"{os.getpid()} {answer}\n")


def main():
    memory, workers = table(int(sys.argv[1])), int(sys.argv[2])
    parent = os.getpid()
    listener = socket.create_server(("127.0.0.1", 0))
    pids = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            work(listener, memory, parent)
        pids.append(str(pid))
    print("ready", listener.getsockname()[1], os.getpid(), *pids, flush=True)
    os.wait()
    sys.exit("a worker ended")


main()
