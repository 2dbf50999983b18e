package v1beta1

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// RuleWords says what the words of one list of a rule may be. It is no part of an object.
// +kubebuilder:object:generate=false
type RuleWords struct {
	// Field is the list, such as "verbs".
	Field string
	// More are the characters that a word may have besides letters and digits of ASCII.
	More string
	// Longest is how many characters a word has at most.
	Longest int

	of func(*rbacv1.PolicyRule) []string
}

// Pattern returns the words as a regular expression, for definitions: it says nothing of how long they are.
func (w *RuleWords) Pattern() string { return "^[A-Za-z0-9" + w.More + "]*$" }

// ruleWords are the lists of a rule. No word has a blank, a comma, a bracket, a quote, a control character or anything that is not ASCII:
// nothing in Kubernetes that a rule could be about has such a name, and people who read a list of rules could take one for another. Colons
// are in names of objects ("system:node") and in paths alone. An empty word is for nothing; of apiGroups it is the core group. Each More
// ends in "-", which is literal there.
var ruleWords = [...]RuleWords{
	{"verbs", "*._-", 63, func(r *rbacv1.PolicyRule) []string { return r.Verbs }},
	{"apiGroups", "*._-", 253, func(r *rbacv1.PolicyRule) []string { return r.APIGroups }},
	{"resources", "*._/-", 253, func(r *rbacv1.PolicyRule) []string { return r.Resources }},
	{"resourceNames", "*._:@+~=-", 512, func(r *rbacv1.PolicyRule) []string { return r.ResourceNames }},
	{"nonResourceURLs", "*._:@+~=/-", 1024, func(r *rbacv1.PolicyRule) []string { return r.NonResourceURLs }},
}

// WordsOfRules returns what the words of each list of a rule may be.
func WordsOfRules() []RuleWords { return slices.Clone(ruleWords[:]) }

// WrongWord returns an error that names the first word of a rule that no rule may have, and nil where there is none.
func WrongWord(r *rbacv1.PolicyRule) error {
	for i := range ruleWords {
		w := &ruleWords[i]
		for _, word := range w.of(r) {
			if len(word) > w.Longest || strings.ContainsFunc(word, func(c rune) bool {
				return !isAlphanumeric(c) &&
					!strings.ContainsRune(w.More, c)
			}) {
				return fmt.Errorf("%s has %.80q: letters, digits and %s are allowed there, %d of them at most", w.Field, word, w.More, w.Longest)
			}
		}
	}
	return nil
}

// ValidRules returns the rules without those that have a wrong word, which give nothing, and an error that names the first of these. The
// list is the one that it was given where all rules are valid.
func ValidRules(rules []rbacv1.PolicyRule) (valid []rbacv1.PolicyRule, wrong error) {
	for i := range rules {
		err := WrongWord(&rules[i])
		switch {
		case err != nil && wrong == nil:
			valid, wrong = append(valid, rules[:i]...), fmt.Errorf("rule %d gives nothing: %w", i, err)
		case err == nil && wrong != nil:
			valid = append(valid, rules[i])
		}
	}
	if wrong == nil {
		return rules, nil
	}
	return valid, wrong
}

func isAlphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// RuleKey returns a text that two rules have in common only if they are equal, and that equal rules have in common: each list with its
// length, each word with its length. Absent and empty lists are equal. Rules that say the same in another order are not.
func RuleKey(r *rbacv1.PolicyRule) string {
	key := make([]byte, 0, 128)
	for i := range ruleWords {
		words := ruleWords[i].of(r)
		key = binary.AppendUvarint(key, uint64(len(words)))
		for _, word := range words {
			key = append(binary.AppendUvarint(key, uint64(len(word))), word...)
		}
	}
	return string(key)
}
