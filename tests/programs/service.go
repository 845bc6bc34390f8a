// A service of `bench services`: `service PORT KEYS WORDS`. GET /KEY answers with the value of a key, from a map.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
)

// Returns a text of `words` times 8 characters, in which each group of eight characters stands twice. The
// benchmark computes the same text.
func value(key uint32, words int) []byte {
	state := key*2654435761 + 12345
	text := make([]byte, 0, words*8)
	for i := 0; i < words/2; i++ {
		state = state*1664525 + 1013904223
		text = fmt.Appendf(text, "%08x%08x", state, state)
	}
	return text
}

func main() {
	keys, _ := strconv.Atoi(os.Args[2])
	words, _ := strconv.Atoi(os.Args[3])
	values := make(map[uint32][]byte)
	for key := range keys {
		values[uint32(key)] = value(uint32(key), words)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		key, _ := strconv.Atoi(r.URL.Path[1:])
		body := values[uint32(key)]
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})
	err := http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
