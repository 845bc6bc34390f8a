// Goroutines build maps and trees and drop most of them, so that the garbage collector runs all the time.
// The program checks the objects that it keeps. It prints a checksum that does not depend on the order in
// which goroutines run.
//
// 	gc [ROUNDS [KEYS [REST]]]    REST: milliseconds that each goroutine sleeps after a round
package main

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type node struct {
	left, right *node
	key         uint64
	payload     []byte
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func payload(key uint64) []byte {
	out := make([]byte, 32+key%200)
	for i := range out {
		out[i] = byte(mix(key + uint64(i)/8))
	}
	return out
}

func insert(root *node, key uint64) *node {
	fresh := &node{key: key, payload: payload(key)}
	if root == nil {
		return fresh
	}
	for at := root; ; {
		next := &at.left
		if key > at.key {
			next = &at.right
		}
		if *next == nil {
			*next = fresh
			return root
		}
		at = *next
	}
}

func check(at *node) uint64 {
	if at == nil {
		return 0
	}
	if string(at.payload) != string(payload(at.key)) {
		fmt.Fprintln(os.Stderr, "wrong payload of key", at.key)
		os.Exit(99)
	}
	h := fnv.New64a()
	h.Write(at.payload)
	return h.Sum64() + check(at.left) + check(at.right)
}

func worker(number uint64, rounds, keys int, rest time.Duration) uint64 {
	kept := map[uint64][]byte{}
	var tree *node
	var sum uint64
	for round := 0; round < rounds; round++ {
		garbage := map[uint64][]byte{}
		for i := 0; i < keys; i++ {
			key := mix(number<<40 | uint64(round)<<20 | uint64(i))
			garbage[key] = payload(key)
			if i%4 == 0 {
				kept[key] = garbage[key]
			}
			if i%8 == 0 {
				tree = insert(tree, key)
			}
		}
		sum += check(tree)
		for key, value := range kept {
			if string(value) != string(payload(key)) {
				fmt.Fprintln(os.Stderr, "wrong value of key", key)
				os.Exit(99)
			}
			sum += key
		}
		time.Sleep(rest)
	}
	return sum
}

func number(at, otherwise int) int {
	if len(os.Args) <= at {
		return otherwise
	}
	n, err := strconv.Atoi(os.Args[at])
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage: gc [ROUNDS [KEYS [REST]]]")
		os.Exit(2)
	}
	return n
}

// Prints each kind of mapping once: rights, flags and the mapped file. Addresses and numbers of mappings
// differ from run to run.
func mappings() []string {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	kinds := map[string]bool{}
	var head string
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) > 1 && strings.Contains(words[0], "-") {
			head = strings.Join(append([]string{words[1]}, words[5:]...), " ")
		} else if len(words) > 0 && words[0] == "VmFlags:" {
			kinds[head+" "+strings.Join(words[1:], " ")] = true
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// Prints operations that the kernel refuses, and the error of each.
func refusals() {
	_, err := syscall.Open("/nowhere/x", syscall.O_RDONLY, 0)
	fmt.Println("open:", err)
	_, err = syscall.Mmap(-1, 0, 1<<48, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	fmt.Println("mmap:", err)
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, 1, 4096, 4)
	fmt.Println("madvise:", errno)
	_, _, errno = syscall.Syscall(syscall.SYS_GETCWD, 8, 4096, 0)
	fmt.Println("getcwd:", errno)
}

func main() {
	rounds, keys := number(1, 12), number(2, 20000)
	rest := time.Duration(number(3, 0)) * time.Millisecond
	var sums [8]uint64
	var group sync.WaitGroup
	for i := range sums {
		group.Add(1)
		go func() {
			defer group.Done()
			sums[i] = worker(uint64(i), rounds, keys, rest)
			runtime.GC()
		}()
	}
	group.Wait()
	var sum uint64
	for _, one := range sums {
		sum += one
	}
	fmt.Printf("OK checksum=%016x\n", sum)
	refusals()
	for _, kind := range mappings() {
		fmt.Println(kind)
	}
}
