package rego_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz/rego"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	// hostileEnv names the policy that this program evaluates instead of running its tests.
	hostileEnv = "REGO_HOSTILE"
	// mostMemory bounds the peak memory of a process that evaluates a hostile policy, including the program's own.
	mostMemory = 512 << 20
)

func TestMain(m *testing.M) {
	if name := os.Getenv(hostileEnv); name != "" {
		evaluateHostile(hostile()[name])
		return
	}
	os.Exit(m.Run())
}

// chain writes lines that each make a value from the one before: %[1]d is the number of the new one, and %[2]d of the one before.
func chain(n int, first, line string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\tx0 := %s\n", first)
	for i := range n {
		fmt.Fprintf(&b, "\t"+line+"\n", i+1, i)
	}
	return b.String()
}

// rules is the same with a rule for each value.
func rules(n int, first, line string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "x0 = %s\n", first)
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i+1, i)
	}
	return b.String()
}

func body(text string) string { return "package authz\nallow {\n" + text + "\n}" }

// hostile returns policies that end the process, or never end themselves, where nothing bounds them.
func hostile() map[string]string {
	nested := strings.Repeat("f(", 40) + "input.Name" + strings.Repeat(")", 40)
	list := "[" + strings.TrimSuffix(strings.Repeat("x,", 6000), ",") + "]"
	return map[string]string{
		"AShift":               body("bits.lsh(1, 10000000000) > 0"),
		"AShiftOfAShift":       body(chain(60, "1", "x%[1]d := bits.lsh(x%[2]d, 200000000)") + "\tx60 > 0"),
		"Squares":              body(chain(40, "12345678901234567890", "x%[1]d := x%[2]d * x%[2]d") + "\tx40 > 0"),
		"SquaresOfFractions":   body(chain(20, "1.5e30000", "x%[1]d := x%[2]d * x%[2]d") + "\tx20 > 0"),
		"SquaresByProduct":     body(chain(40, "12345678901234567890", "x%[1]d := product([x%[2]d, x%[2]d])") + "\tx40 > 0"),
		"Concat":               body(chain(40, `"0123456789"`, `x%[1]d := concat("", [x%[2]d, x%[2]d])`) + "\tx40 != \"\""),
		"ConcatBySeparator":    body(chain(12, `"0123456789"`, `x%[1]d := concat(x%[2]d, ["", "", "", "", "", "", "", "", "", "", "", ""])`) + "\tx12 != \"\""),
		"Replace":              body(chain(40, `"aa"`, `x%[1]d := replace(x%[2]d, "a", "aa")`) + "\tx40 != \"\""),
		"ReplaceMany":          body(chain(40, `"aa"`, `x%[1]d := strings.replace_n({"a": "aa"}, x%[2]d)`) + "\tx40 != \"\""),
		"ReplaceByExpression":  body(chain(40, `"aa"`, `x%[1]d := regex.replace(x%[2]d, "a", "$0$0")`) + "\tx40 != \"\""),
		"SprintfOfWidth":       body(`sprintf("%2000000000d", [1]) != ""`),
		"SprintfOfArguments":   body(`sprintf("%*d", [2000000000, 1]) != ""`),
		"SprintfOfOneArgument": body(chain(12, `"0123456789"`, `x%[1]d := sprintf("%%[1]v%%[1]v%%[1]v%%[1]v%%[1]v%%[1]v%%[1]v%%[1]v", [x%[2]d])`) + "\tx12 != \"\""),
		"ArrayConcat":          body(chain(40, `[1]`, `x%[1]d := array.concat(x%[2]d, x%[2]d)`) + "\tcount(x40) > 0"),
		"Base64":               body(chain(90, `"0123456789"`, `x%[1]d := base64.encode(x%[2]d)`) + "\tx90 != \"\""),
		"Hexadecimal":          body(chain(40, `"0123456789"`, `x%[1]d := hex.encode(x%[2]d)`) + "\tx40 != \"\""),
		"Quotes":               body(chain(40, `"\"\"\"\""`, `x%[1]d := json.marshal(x%[2]d)`) + "\tx40 != \"\""),
		"Range":                body("n := numbers.range(1, 2000000000)\n\tcount([x | x := n[_]]) > 0"),
		"RangeOfBigNumbers":    body("count(numbers.range(0, 1e400)) > 0"),
		"RangesThatAreKept":    body("n := numbers.range(1, 9000)\n\tcount([x | y := n[_]; x := numbers.range(y, y + 9000)]) > 0"),
		"ValuesThatAreKept": body(
			"n := numbers.range(1, 9000)\n\tt := concat(\",\", [\"1\" | n[_]])\n\tcount([x | n[_]; x := json.unmarshal(concat(\"\", [\"[\", t, \"]\"]))]) > 0",
		),
		"ListsThatAreKept": body("n := numbers.range(1, 9000)\n\tcount([" + list + " | x := n[_]]) > 0"),
		"ListsOfFunctions": "package authz\nf(x) = " + list + "\nallow {\n\tn := numbers.range(1, 9000)\n\tcount([y | y := f(n[_])]) > 0\n}",
		"Repetition":       body("regex.match(\"(" + strings.Repeat("a?", 1500) + "){1000}\", \"a\")"),
		"RepetitionOfMany": body(`regex.match("(x+x+)+y", concat("", ["x" | numbers.range(1, 9000)[_]]))`),
		"Submatches": body(
			"n := numbers.range(1, 9000)\n\tcount(regex.find_all_string_submatch_n(concat(\"\", [\"()\" | n[_]]), concat(\"\", [\"a\" | n[_]]), -1)) > 0",
		),
		"Glob":          body(`glob.match("*a*a*a*a*a*a*a*a*a*a*b", [], concat("", ["a" | numbers.range(1, 1000)[_]]))`),
		"Nested":        body(chain(60, "input.Name", "x%[1]d := [x%[2]d, x%[2]d]") + "\tjson.marshal(x60) != \"\""),
		"NestedObjects": body(chain(60, "input.Name", `x%[1]d := {"a": x%[2]d, "b": x%[2]d}`) + "\tjson.marshal(x60) != \"\""),
		"NestedByRules": "package authz\n" + rules(60, `"a"`, "x%[1]d = [x%[2]d, x%[2]d]") + "allow { json.marshal(x60) != \"\" }",
		"NestedByTwoRules": "package authz\n" + rules(
			60,
			`"a"`,
			"x%[1]d = [x%[2]d] { input.Verb }\nx%[1]d = {\"a\": x%[2]d} { input.Path }",
		) + "allow { json.marshal(x60) != \"\" }",
		"NestedByElse": "package authz\n" + rules(
			60,
			`"a"`,
			"x%[1]d = [x%[2]d] { input.Verb } else = {\"a\": x%[2]d} { input.Path }",
		) + "allow { json.marshal(x60) != \"\" }",
		"NestedByMembership": "package authz\nimport future.keywords\nallow {\n" + chain(
			60,
			"input.Name",
			"some x%[1]d in [[x%[2]d, x%[2]d]]",
		) + "\tjson.marshal(x60) != \"\"\n}",
		"NestedByReference": body(chain(60, "input.Name", "x%[1]d := [[x%[2]d, x%[2]d]][_]") + "\tjson.marshal(x60) != \"\""),
		"NestedByComprehension": body(chain(60, "input.Name", "x%[1]d := [[x%[2]d, x%[2]d] | true]") +
			"\tjson.marshal(x60) != \"\""),
		"NestedByLists":     body("n := [1, 2, 3]\n" + chain(60, "input.Name", "x%[1]d := [x%[2]d | n[_]]") + "\tjson.marshal(x60) != \"\""),
		"NestedByFunctions": "package authz\nf(x) = [x, x]\nallow { json.marshal(" + nested + ") != \"\" }",
		"NestedAndCompared": "package authz\nf(x) = [x, x]\nallow { " + nested + " == " + nested + " }",
		"NestedInASet":      "package authz\nf(x) = [x, x]\nallow { {" + nested + ", 1} == {" + nested + ", 1} }",
		"WalkedWithin": body(
			"n := numbers.range(1, 9000)\n\tx := json.unmarshal(concat(\"\", array.concat([\"[\" | n[_]], [\"]\" | n[_]])))\n\tcount([p | walk(x, [p, _])]) > 0",
		),
		"Replaced": body(`count(1) with count as bits.negate`),
	}
}

// evaluateHostile compiles and evaluates a policy, and fails loudly before the machine does.
func evaluateHostile(text string) {
	go func() {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			if metrics.Read(s); s[0].Value.Uint64() > 2*mostMemory {
				fmt.Println("it takes all memory")
				os.Exit(3)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	p, err := rego.Compile(text)
	if err == nil {
		_, err = p.Allows(ctx, &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/"})
	}
	fmt.Printf("ended: %.300v\n", err)
}

// S70. Each runs in its own process, so that one that takes all memory, or never ends, fails only its own test.
func TestHostilePoliciesEnd(t *testing.T) {
	const deadline = 2 * time.Minute // of failure: they take some milliseconds
	for name := range hostile() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), hostileEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "ended: ") {
				t.Fatalf("%v\n%.2000s", err, out)
			}
			if peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > mostMemory {
				t.Errorf("it took %d MiB", peak>>20)
			}
			t.Logf("%s in %v", strings.TrimSpace(string(out)), cmd.ProcessState.UserTime().Round(time.Millisecond))
		})
	}
}
