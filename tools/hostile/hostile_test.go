package hostile_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/tools/hostile"
)

var vocabulary = hostile.Vocabulary{
	Verbs: []string{"get", "list", "*"}, Groups: []string{"", "apps", "*"}, Resources: []string{"pods", "secrets", "*"}, Names: []string{"a"},
	Paths: []string{"/x"},
}

func TestASeedMakesTheSameWords(t *testing.T) {
	a, b, c := hostile.New(1), hostile.New(1), hostile.New(2)
	same := true
	for range 200 {
		word := a.Word()
		if word != b.Word() {
			t.Fatal("one seed makes different words")
		}
		same = same && word == c.Word()
	}
	if same {
		t.Error("two seeds make the same words")
	}
	if !reflect.DeepEqual(hostile.New(3).Rules(9, &vocabulary), hostile.New(3).Rules(9, &vocabulary)) {
		t.Error("one seed makes different rules")
	}
}

func TestWordsOfEachKindAreThere(t *testing.T) {
	seen := strings.Builder{}
	longest := map[int]bool{}
	g := hostile.New(1)
	for range 5000 {
		word := g.Word()
		longest[len(word)] = true
		seen.WriteString(word)
	}
	for _, part := range []string{`"`, "[", "]", ",", " ", "\x00", "\n", "%", "*", "\u202e", "\u0430", "e\u0301", "\u00e9", "system:", "kapis:", "../", "\xff"} {
		if !strings.Contains(seen.String(), part) {
			t.Errorf("no word has %q", part)
		}
	}
	for _, n := range []int{0, 63, 64, 253, 254} {
		if !longest[n] {
			t.Errorf("no word has %d bytes", n)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(hostile.Words())))) != len(hostile.Words()) {
		t.Error("a word is there twice")
	}
}

// Twins have one text and are not equal: the pair with which an audit became administrator.
func TestTwinsHaveOneText(t *testing.T) {
	g := hostile.New(1)
	plain := func() *rbacv1.PolicyRule {
		return &rbacv1.PolicyRule{Verbs: g.Some(2, "get", "list"), APIGroups: []string{g.One("", "apps", "*")}, Resources: []string{g.One("pods", "secrets", "*")}}
	}
	for range 100 {
		quiet, loud := g.Twins(plain(), plain())
		if quiet.String() != loud.String() || reflect.DeepEqual(quiet, loud) {
			t.Fatalf("%q\n%q", quiet.String(), loud.String())
		}
	}
}
