package client

import (
	"strings"
	"testing"
)

// Two clients with the same three letters: a code can't identify either of them.
func TestClientsWithTheSameLettersHaveNoDevices(t *testing.T) {
	letters, first, second := map[string]string{}, "", ""
	for i := 0; first == ""; i++ {
		name := "client-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		if other, ok := letters[UserCodePrefix(name)]; ok {
			first, second = other, name
		}
		letters[UserCodePrefix(name)] = name
	}
	tab := &table{clients: map[string]*Client{first: {Name: first}, second: {Name: second}, "alone": {Name: "alone"}}}
	tab.complete()
	if tab.letters[UserCodePrefix(first)] != nil || tab.letters[UserCodePrefix("alone")] == nil {
		t.Errorf("%v", tab.letters)
	}
}
