// Package hostile generates words that break careless joining, splitting, printing, folding or comparing of texts, and rules of roles
// made of such words. The tests of every check of rights use it: what a check accepts must give exactly the rights that its parsed
// value says. The same seed generates the same words.
package hostile

import (
	"math/rand/v2"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Words returns the fixed words. They are made of characters with a meaning to something that texts pass through: separators and
// quotes of encodings, globs, control characters, Unicode that looks or folds like ASCII, lengths at the bounds of names, and names
// that are the joined text of others.
func Words() []string {
	return slices.Clone(words)
}

var words = []string{
	"", " ", "a", "b", "A", "a b", "a,b", "a/b", "a:b", "a|b", "a=b", "a.b", "a\tb", "a\nb", "a\r\nb", "a\x00b", "\x00", "a\x01b", "a\x7f",
	"a\u0085b", "a\u2028b", `"a"`, `'a'`, "`a`", `a"b`, `a\b`, `a\"`, `\u0061`, "[a]", "[a", "a]", "[]", "{a}", "(a)", "<a>", "&a;", "a&b",
	"a;b", "#a", "a?b", "a#b", "$a", "${a}", "$(a)", "@a", "%", "%s", "%v", "%d%n", "%2f", "%2F", "%00", "%25", "a%20b", "%!v(MISSING)",
	"*", "**", "a*", "*a", "a*b", "*/", "/*", "*/*", "*/status", "pods/*", "pods/", "/pods", "pods//log", ".*", "?", "a?", ".", "..", "...",
	"../a", "./a", "a/..", "a/../b", "-", "--", "-a", "a-", "a.-b", "_", "~", "nil", "null", "true", "0", "<nil>", "[object Object]",
	"\u202ea", "a\u200bb", "a\u200db", "\ufeffa", "\u2066a\u2069", "\u0430", "\u0430dmin", "p\u043eds", "get\u00a0", "\u212aelvin",
	"\u017f", "\u0131", "I\u0307", "\u00df", "\uff41", "\u00e9", "e\u0301", "\u1e9b\u0323", "\ufb01", "fi", "GET", "Get", "Pods", "PODS",
	"admin", "Admin", "ADMIN", "\xff", "a\xffb", "\xc0\xaf", "\xed\xa0\x80", "\ufffd", "system:", "system:masters", "system:authenticated",
	"system:serviceaccount:a:b", "System:masters", " system:masters", "kapis:", "kapis:global:admin", "kapis:workspace:a:b",
	"kubesphere:serviceaccount:a:b", "kube-system", "platform-admin", "],APIGroups:[*],Resources:[*],ResourceNames:[],NonResourceURLs:[",
	"],NonResourceURLs:[", `a","b`, `a"],"resources":["*`, "a' or '1'='1", "*)(uid=*", "a\\00", strings.Repeat("a", 63),
	strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("\u00e9", 127),
	strings.Repeat("a.", 126) + "a",
}

// Generator generates hostile words and rules from random numbers.
type Generator struct{ random *rand.Rand }

// New returns a generator of a seed.
func New(seed uint64) *Generator { return &Generator{rand.New(rand.NewPCG(seed, 0x5eed))} }

// N returns a number from 0 to n-1.
func (g *Generator) N(n int) int { return g.random.IntN(n) }

// Chance reports true once in n times.
func (g *Generator) Chance(n int) bool { return g.random.IntN(n) == 0 }

// One returns one of some words.
func (g *Generator) One(from ...string) string { return from[g.random.IntN(len(from))] }

// Some returns up to most of some words, in any order, perhaps one twice.
func (g *Generator) Some(most int, from ...string) []string {
	out := make([]string, g.random.IntN(most+1))
	for i := range out {
		out[i] = g.One(from...)
	}
	return out
}

// Word returns a fixed word, two of them joined, or one with an inserted character.
func (g *Generator) Word() string {
	word := g.One(words...)
	switch g.random.IntN(6) {
	case 0:
		return word + g.separator() + g.One(words...)
	case 1:
		at := g.random.IntN(len(word) + 1)
		return word[:at] + g.separator() + word[at:]
	}
	return word
}

func (g *Generator) separator() string {
	return g.One(" ", ",", ":", "/", "|", "=", "\n", "\x00", "\t", "] [", "],", "[", `"`, `\`, "%", "*", "\u200b", "")
}

// Mixed mostly returns one of some plain words, and otherwise a hostile one.
func (g *Generator) Mixed(plain ...string) string {
	if len(plain) == 0 || g.Chance(5) {
		return g.Word()
	}
	return g.One(plain...)
}

// Vocabulary is what a rule is made of besides hostile words.
type Vocabulary struct{ Verbs, Groups, Resources, Names, Paths []string }

// Rules returns up to most rules of words of a vocabulary, some of which are hostile, and some joined to others of the same rule.
func (g *Generator) Rules(most int, v *Vocabulary) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, g.random.IntN(most+1))
	for i := range out {
		out[i] = g.Rule(v)
	}
	return out
}

// Rule returns one rule, as Rules does.
func (g *Generator) Rule(v *Vocabulary) rbacv1.PolicyRule {
	list := func(plain []string) []string {
		out := make([]string, 1+g.random.IntN(2))
		for i := range out {
			out[i] = g.Mixed(plain...)
		}
		if g.Chance(8) {
			return []string{strings.Join(out, g.separator())}
		}
		return out
	}
	r := rbacv1.PolicyRule{Verbs: list(v.Verbs)}
	if len(v.Paths) > 0 && g.Chance(5) {
		r.NonResourceURLs = list(v.Paths)
		return r
	}
	r.APIGroups, r.Resources = list(v.Groups), list(v.Resources)
	if len(v.Names) > 0 && g.Chance(3) {
		r.ResourceNames = list(v.Names)
	}
	return r
}

// Twins returns two rules with one text, by PolicyRule.String(): the first means what harmless means, for one strange name at most;
// the second means what powerful means, too. Code that compares rules by their texts mistakes one for the other. Neither of the given
// rules may be for paths.
func (g *Generator) Twins(harmless, powerful *rbacv1.PolicyRule) (quiet, loud rbacv1.PolicyRule) {
	list := func(l []string) string { return "[" + strings.Join(l, " ") + "]" }
	verbs := powerful.Verbs
	if len(verbs) == 0 {
		verbs = []string{"*"}
	}
	junk := g.One("junk", "x", "\u202e", "%s")
	quiet = rbacv1.PolicyRule{
		Verbs: harmless.Verbs, APIGroups: harmless.APIGroups, Resources: harmless.Resources,
		ResourceNames: []string{
			junk + " " + strings.Join(verbs, " ") + "],APIGroups:" + list(powerful.APIGroups) + ",Resources:" + list(powerful.Resources) +
				",ResourceNames:[],NonResourceURLs:[",
		},
	}
	first := strings.TrimPrefix(list(harmless.Verbs), "[") + ",APIGroups:" + list(harmless.APIGroups) +
		",Resources:" + list(harmless.Resources) + ",ResourceNames:[" + junk
	loud = rbacv1.PolicyRule{
		Verbs:     append([]string{first}, verbs...),
		APIGroups: powerful.APIGroups, Resources: powerful.Resources, NonResourceURLs: []string{"],NonResourceURLs:["},
	}
	return quiet, loud
}
