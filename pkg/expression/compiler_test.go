package expression

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	kjson "sigs.k8s.io/json"
)

const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"a","labels":{"app":"web","a.b/c":"x\"y"},` +
	`"creationTimestamp":"2026-03-01T10:00:00Z","finalizers":[]},"spec":{"replicas":3,"ratio":0.5,"suspend":true,"none":null,"nodeName":"n1",` +
	`"containers":[{"name":"c1","image":"nginx:1.27","resources":{"limits":{"memory":"2Gi","cpu":"500m"}}},{"name":"c2","image":"redis"}]},` +
	`"status":{"podIP":"10.0.0.7","restarts":[{"count":2},{"count":5}],"url":"https://example.com/x?y=z","version":"v1.30.2"}}`

func compile(t testing.TB, text string) *Program {
	t.Helper()
	p, err := new(Compiler).Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func TestHolds(t *testing.T) {
	c := new(Compiler)
	for text, want := range map[string]bool{
		`object.spec.replicas > 2`:                                                                                               true,
		`object.spec.replicas > 2.5 && object.spec.ratio < 1`:                                                                    true,
		`object.spec.replicas == 3.0`:                                                                                            true,
		`object.metadata.labels['a.b/c'] == 'x"y'`:                                                                               true,
		`object.metadata.labels.app in ['web', 'db']`:                                                                            true,
		`'app' in object.metadata.labels`:                                                                                        true,
		`object.spec.suspend`:                                                                                                    true,
		`object.spec.none == null`:                                                                                               true,
		`has(object.spec.nodeName) && !has(object.spec.absent)`:                                                                  true,
		`object.spec.absent == 'x'`:                                                                                              false,
		`object.spec.absent != 'x'`:                                                                                              false,
		`object.spec.absent == 'x' || object.spec.nodeName == 'n1'`:                                                              true,
		`!has(object.spec.absent) || object.spec.absent.deep > 1`:                                                                true,
		`object.spec.containers.exists(c, c.image.startsWith('nginx:'))`:                                                         true,
		`object.spec.containers.all(c, has(c.resources))`:                                                                        false,
		`object.spec.containers.filter(c, c.name == 'c2').size() == 1`:                                                           true,
		`object.spec.containers[1].image == 'redis'`:                                                                             true,
		`object.spec.containers[9].image == 'redis'`:                                                                             false,
		`object.spec.containers.map(c, string(c.name)) == ['c1', 'c2']`:                                                          true,
		`object.status.restarts.map(r, int(r.count)).sum() == 7`:                                                                 true,
		`object.spec.containers.exists_one(c, c.image.matches('^red'))`:                                                          true,
		`object.metadata.labels.exists(k, k.startsWith('a.b'))`:                                                                  true,
		`size(object.metadata.labels) == 2 && size(object.metadata) > 3`:                                                         true,
		`object.metadata.finalizers == []`:                                                                                       true,
		`object.metadata.labels == {'app': 'web', 'a.b/c': 'x"y'}`:                                                               true,
		`object.spec == object.spec && object.spec != object.status`:                                                             true,
		`(object.metadata.finalizers + ['x']).size() == 1`:                                                                       true,
		`timestamp(object.metadata.creationTimestamp) < timestamp('2026-04-01T00:00:00Z')`:                                       true,
		`timestamp(object.metadata.creationTimestamp).getMonth() == 2`:                                                           true,
		`quantity(object.spec.containers[0].resources.limits.memory).isGreaterThan(quantity('1Gi'))`:                             true,
		`quantity('500m').compareTo(quantity(object.spec.containers[0].resources.limits.cpu)) == 0`:                              true,
		`quantity('1k').add(quantity('24')).asInteger() == 1024`:                                                                 true,
		`quantity('2').sub(quantity('500m')).asApproximateFloat() == 1.5 && quantity('-1').sign() == -1`:                         true,
		`isQuantity(object.spec.nodeName) || !quantity('0.5').isInteger()`:                                                       true,
		`url(object.status.url).getHost() == 'example.com'`:                                                                      true,
		`object.metadata.name.find('[0-9]+') == '1'`:                                                                             true,
		`ip(object.status.podIP).family() == 4 && cidr('10.0.0.0/8').containsIP(object.status.podIP)`:                            true,
		`[1, 2, 3].isSorted() && [3, 1].max() == 3`:                                                                              true,
		`semver(object.status.version, true).isGreaterThan(semver('1.29.0'))`:                                                    true,
		`object.metadata.name.upperAscii() == 'WEB-1' && 'ÄB'.lowerAscii() == 'Äb' && ' x '.trim() == 'x'`:                       true,
		`object.metadata.name.split('-')[1] == '1'`:                                                                              true,
		`object.spec.nodeName > 5`:                                                                                               false, // of no comparable kinds
		`object.metadata`:                                                                                                        false, // neither true nor false
		`1/int(object.spec.ratio) == 0`:                                                                                          false, // division by zero
		`type(object.spec.replicas) == int && type(object.metadata) == map && type(object.spec.containers) == list`:              true,
		`object.spec.containers.exists(c, c == {'name': 'c2', 'image': 'redis'})`:                                                true,
		`{'name': 'c2', 'image': 'redis'} in object.spec.containers && [1, [2]] != [] && object.metadata.name in ['x'] == false`: true,
	} {
		p, err := c.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		e := p.Begin()
		if got := e.Holds(pod); got != want {
			_, _, err := p.program.Eval(activation{&e.root})
			t.Errorf("%s: %v (%v)", text, got, err)
		}
		if err := e.Fault(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The examples of docs/queries.md work.
func TestExamplesOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/queries.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if example, ok := strings.CutPrefix(line, "cel="); ok {
			n++
			compile(t, example)
		}
	}
	if n == 0 {
		t.Error("there are no examples")
	}
	if _, err := new(Compiler).Compile("object.spec.replicas >"); err == nil ||
		!strings.Contains(string(text), err.Error()[:len("line 1, column 23: Syntax error:")]) {
		t.Errorf("the documentation does not show %v", err)
	}
}

func TestTextsThatAreRefused(t *testing.T) {
	c := new(Compiler)
	for _, r := range []struct{ name, text, says string }{
		{"SyntaxWithItsPosition", "object.a ==", "line 1, column 12"},
		{"SecondLine", "object.a == 1 &&\n  foo", "line 2, column 3"},
		{"UnknownVariable", "subject.x == 1", "line 1, column 1: undeclared"},
		{"UnknownFunction", "object.a.format(['x'])", "format"},
		{"NotTrueOrFalse", "1 + 1", "must be true or false"},
		{"TypesThatNeverFit", "'a' > 1", "no matching overload"},
		{"TooLong", "object.a == '" + strings.Repeat("x", maxText) + "'", "size"},
		{"TooDeep", strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), ""},
		{"BadTimestamp", "timestamp('yesterday') == timestamp('x')", "timestamp"},
		{"BadPattern", "object.a.matches('(')", "missing"},
		{"PatternFromTheObject", "object.a.matches(object.b)", "literal"},
		{"PatternPutTogether", "object.a.find('a' + 'b') == ''", "literal"},
		{"HugePattern", `object.a.matches('(((a{30}){30}){30})')`, "repeat"},
		{"HugeClass", `object.a.matches('(\\pL{100})')`, "states"},
		{"GlobalFormOfMatches", `matches(object.a, string(object.b))`, "literal"},
		{"SharedLists", "[1, 2].map(x, [1, 2]).map(y, y.map(z, y)).size() > 0", "simple value"},
		{"ListOfLists", "object.a.map(x, x.b).size() > 0", "simple value"},
		{"ListTwice", "[[1]].exists(x, [x, x] == [x])", "simple value"},
		{"MapOfLists", "[[1]].exists(x, {'a': x} == {'b': x})", "simple value"},
		{"Messages", "google.protobuf.ListValue{values: []} == null", ""},
		{"Dyn", "[dyn([1])] == []", "simple value"},
		{"Ranges", "lists.range(1000000000).size() > 0", "undeclared"},
		{"Replacing", "object.a.replace('', 'x') == ''", "undeclared"},
		{"Binding", "cel.bind(x, 1, x == 1)", "undeclared"},
	} {
		t.Run(r.name, func(t *testing.T) {
			p, err := c.Compile(r.text)
			if err == nil || p != nil || !strings.Contains(err.Error(), r.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWhatIsTooCostlyIsAFaultOnce(t *testing.T) {
	var wide strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&wide, `"k%d":%d,`, i, i)
	}
	object := `{"m":{` + strings.TrimSuffix(wide.String(), ",") + `},"l":[` + strings.Repeat("1,", 3000) + `1]}`
	for name, text := range map[string]string{
		"ManySteps":       "object.l.all(x, object.l.all(y, x == y))",
		"MuchReading":     "object.m.all(k, object.m[k] >= 0)",
		"EqualityOfMaps":  "object.m == object.m",
		"GrowingText":     "object.l.all(x, ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' + string(x)).matches('(a|aa)*b') == false)",
		"WidePatterns":    "object.l.all(x, !('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' + string(x)).matches('^(a?){30}((a|b){10}){10}$'))",
		"TimeZones":       "object.l.all(x, timestamp(x).getHours('Europe/Berlin') >= 0)",
		"TimeZonesOfDyn":  "object.l.all(x, dyn(timestamp(x)).getHours('Europe/Berlin') >= 0)",
		"ManyConversions": "object.l.map(x, string(x)).all(x, object.l.map(y, string(y)).exists(z, z == x + x))",
	} {
		t.Run(name, func(t *testing.T) {
			e := compile(t, text).Begin()
			if e.Holds(object) {
				t.Error("it holds")
			}
			if e.Holds(`{"m":{},"l":[]}`) {
				t.Error("something holds behind a fault")
			}
			if err := e.Fault(); err == nil || !strings.Contains(err.Error(), "costs less") {
				t.Fatalf("fault: %v", err)
			}
			if err := e.Fault(); err != nil {
				t.Errorf("asked again: %v", err)
			}
			if !e.Holds(`{"m":{},"l":[]}`) {
				t.Error("nothing holds behind a fault that was asked for")
			}
		})
	}
}

// Objects may be nested 10000 deep: comparing two of them is stopped by what it reads, long before the stack is large.
func TestDeepObjectsAreTooCostlyToCompare(t *testing.T) {
	for _, b := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		deep := strings.Repeat(b[0], 9_999) + "1" + strings.Repeat(b[1], 9_999)
		e := compile(t, "object.x == object.y").Begin()
		if e.Holds(`{"x":` + deep + `,"y":` + deep + `}`) {
			t.Error("it holds")
		}
		if err := e.Fault(); err == nil || !strings.Contains(err.Error(), "costs less") {
			t.Errorf("fault: %v", err)
		}
	}
}

func TestTheBudgetOfAQueryIsForAllObjects(t *testing.T) {
	e := compile(t, "object.kind == 'Pod'").Begin()
	e.left = 1000
	n := 0
	for e.Holds(pod) {
		if n++; n > 1000 {
			t.Fatal("there is no budget")
		}
	}
	if err := e.Fault(); err == nil || !strings.Contains(err.Error(), "all objects together") {
		t.Error(err)
	}
	if !e.Holds(pod) {
		t.Error("asking does not begin a new budget")
	}
}

// The library takes a minute to parse a quantity with a huge exponent.
func TestQuantitiesAreReadAtOnce(t *testing.T) {
	for _, q := range []string{"1e-99999999", "1E-99999999", "1e99999999", strings.Repeat("9", 100)} {
		if e := compile(t, `isQuantity('`+q+`')`).Begin(); e.Holds(pod) {
			t.Errorf("%s is a quantity", q)
		}
	}
	for _, q := range []string{"1e3", "12E", "1Ki", "-0.5", "100m", "5e-03"} {
		if e := compile(t, `isQuantity('`+q+`')`).Begin(); !e.Holds(pod) {
			t.Errorf("%s is no quantity", q)
		}
	}
}

func TestCompilerKeepsWhatWasUsedLast(t *testing.T) {
	c := new(Compiler)
	first, err := c.Compile("object.a == 1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxPrograms + 10 {
		if _, err := c.Compile(fmt.Sprintf("object.b == %d", i)); err != nil {
			t.Fatal(err)
		}
		if again, _ := c.Compile("object.a == 1"); again != first {
			t.Fatal("a program in use was dropped")
		}
	}
	if n := c.programs.Len(); n != maxPrograms {
		t.Errorf("%d programs", n)
	}
}

// random returns a JSON value of few names and values, so that expressions match them.
func random(r *rand.Rand, depth int) any {
	switch k := r.IntN(10); {
	case k < 4 && depth > 0:
		m := map[string]any{}
		for range r.IntN(4) {
			m[[]string{"a", "b", "c", "x.y"}[r.IntN(4)]] = random(r, depth-1)
		}
		return m
	case k < 6 && depth > 0:
		l := []any{}
		for range r.IntN(4) {
			l = append(l, random(r, depth-1))
		}
		return l
	default:
		return []any{"", "a", "x\"<ü", "3Gi", 0, 1, -7, 1.5, 1e30, json.Number("1.0"), uint64(1 << 63), true, false, nil}[r.IntN(14)]
	}
}

// The property: an expression has the same result for a lazy value and for the decoded one, errors too.
func TestLazyValuesAreLikeDecodedOnes(t *testing.T) {
	programs := map[string]*Program{}
	c := new(Compiler)
	for _, text := range []string{
		`object.a == object.b`, `object.a != object.b`, `object.a in object.b`, `object.a.b == 1`, `object.a.b > object.b`, `object.a < object.b`,
		`has(object.a.b)`, `has(object.a.b.c)`, `object.a[0] == object.b[1]`, `object.a['x.y'] == object.b`, `size(object.a) == size(object.b)`,
		`object.a.exists(x, x == object.b)`, `object.a.all(x, x in object.b)`, `object.a.filter(x, x != null) == object.b`,
		`object.a.map(x, string(x)) == object.b`, `object.a + object.b == object.c`, `object.a + object.b == object.b + object.a`,
		`object.a + [1] == object.b`, `[1] + object.a == object.b`, `object == {'a': 1}`, `object.a == {'a': 1}`, `{'a': 1} == object.a`,
		`object.a == [1]`, `[1] == object.a`, `object.a == []`, `object.a == {}`, `type(object.a) == type(object.b)`, `object.a.isSorted()`,
		`object.a.indexOf(object.b) == 0`, `object.a.min() == object.b`, `object.a.startsWith('a')`, `quantity(object.a).isGreaterThan(quantity('1Gi'))`,
		`object.a == 1 || object.b == 1`, `object.a ? object.b == 1 : object.c == 1`, `object.a in {'a': 1}`, `'a' in object.a`, `object.a == 1.0`,
		`object.exists(k, object[k] == 1)`, `object.a.all(k, object.a[k] != 1)`, `object.a == object.a`, `dyn(object.a) == dyn(object.a)`,
		`object.a.exists(x, x.exists(y, y == 1))`, `object.a.exists_one(x, x.a == 1)`, `object.a <= 1 && object.a >= 0`, `-object.a == 7`,
	} {
		p, err := c.Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		programs[text] = p
	}
	held := 0
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 1))
		top := map[string]any{}
		for _, k := range []string{"a", "b", "c"} {
			if r.IntN(5) > 0 {
				top[k] = random(r, 3)
			}
		}
		text, err := json.Marshal(top)
		if err != nil {
			t.Fatal(err)
		}
		var decoded any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &decoded); err != nil {
			t.Fatal(err)
		}
		for expression, p := range programs {
			want, _, wantErr := p.program.Eval(map[string]any{variable: decoded})
			e := p.Begin()
			e.read = reader{left: 1 << 30}
			e.root.reset(string(text))
			got, _, gotErr := p.program.Eval(activation{&e.root})
			if (gotErr == nil) != (wantErr == nil) || gotErr == nil && types.Equal(got, want) != types.True {
				t.Fatalf("%s of %s: %v %v, decoded %v %v", expression, text, got, gotErr, want, wantErr)
			}
			if holds := e.Holds(string(text)); holds != (wantErr == nil && want == types.True) {
				t.Fatalf("%s of %s: %v", expression, text, holds)
			} else if holds {
				held++
			}
		}
	}
	if held == 0 {
		t.Error("nothing ever held")
	}
}

func TestOneEvaluationServesManyGoroutines(t *testing.T) {
	e := compile(t, "object.spec.containers.exists(c, c.image == 'redis')").Begin()
	done := make(chan bool)
	for range 8 {
		go func() {
			ok := true
			for range 200 {
				ok = ok && e.Holds(pod) && !e.Holds(`{"spec":{"containers":[]}}`)
			}
			done <- ok
		}()
	}
	for range 8 {
		if !<-done {
			t.Error("a wrong answer")
		}
	}
}

// Any text compiles or is refused, and then its evaluation ends, with or without an answer.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`object.a == 1`, `object.a.exists(x, x.b in [1, 2])`, `has(object.a) ? object.a > 1 : true`, `[1, 2].map(x, x * 2).sum() == 6`,
		`object.a.matches('^a{2,5}')`, `quantity('1Gi').isLessThan(quantity(object.a))`, `{'a': [1, {'b': 2}]} == object`, `'a' + `, "object\n.a", `x`,
		`[[1]].map(x, x).size() > 0`, `timestamp(object.a) - duration('1h') > timestamp('2026-01-01T00:00:00Z')`, `"\U0010ffff" == object.a`,
		`object.a.split('')[0] == 'b'`, `dyn([1]) == object.a && type(object) == map`, `b'\xff' == bytes(object.a)`,
	} {
		f.Add(s, pod)
	}
	c := new(Compiler)
	f.Fuzz(func(t *testing.T, text, object string) {
		p, err := c.Compile(text)
		if (p == nil) != (err != nil) {
			t.Fatalf("%q: %v and %v", text, p, err)
		}
		if p != nil {
			e := p.Begin()
			e.Holds(pod)
			e.Holds(object)
			_ = e.Fault()
		}
	})
}

func BenchmarkHolds(b *testing.B) {
	object := strings.Replace(pod, `"nodeName":"n1"`, `"nodeName":"n1","pad":"`+strings.Repeat("x", 5000)+`"`, 1)
	for name, text := range map[string]string{
		"field": `object.status.podIP == '10.0.0.7'`, "exists": `object.spec.containers.exists(c, c.image.contains('redis'))`,
		"quantity": `quantity(object.spec.containers[0].resources.limits.memory).isGreaterThan(quantity('1Gi'))`,
	} {
		b.Run(name, func(b *testing.B) {
			e := compile(b, text).Begin()
			b.ReportAllocs()
			for b.Loop() {
				if !e.Holds(object) {
					_ = e.Fault()
				}
			}
			b.ReportMetric(float64(queryCost-e.left)/float64(b.N), "units/op")
		})
	}
}

var _ cel.Activation = activation{}
