package rego

import "testing"

func TestFunctionsAreThoseOfTheLanguage(t *testing.T) {
	if got := len(capabilities().Builtins); got != len(functions) {
		t.Errorf("%d of %d functions are known to the language", got, len(functions))
	}
	for _, b := range capabilities().Builtins {
		if b.Nondeterministic && b.Name != "time.now_ns" {
			t.Errorf("%s depends on more than its arguments", b.Name)
		}
	}
}
