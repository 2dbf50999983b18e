package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// doubling are n lines of Rego that each make a value of the one before, as line says with the number of both.
func doubling(n int, first, line string) string {
	var b strings.Builder
	b.WriteString("x0 := " + first + "\n")
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i+1, i)
	}
	return b.String()
}

// started returns when the server's process started, as it says itself.
func started(t *testing.T) string { return metricLine(t, "process_start_time_seconds ") }

// everTaken is how much the process has ever had from the system, in bytes: what it gave back counts, too.
func everTaken(t *testing.T) float64 {
	t.Helper()
	line := metricLine(t, "go_memstats_sys_bytes ")
	n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.IndexByte(line, ' '):]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func metricLine(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.Lines(admin(t).must(t, http.StatusOK, http.MethodGet, "/metrics", nil).body) {
		if strings.HasPrefix(line, name) {
			return line
		}
	}
	t.Fatalf("the metrics have no %s", name)
	return ""
}

// S70. Each policy allows ConfigMaps, so that it is seen to count, and is hostile about the one of the name bomb.
func TestAPolicyTakesNeitherTheMemoryNorTheTimeOfTheServer(t *testing.T) {
	proves(t, "S70")
	a, since, before := admin(t), started(t), everTaken(t)
	grant := func(name, user string, annotations obj, rules ...any) {
		a.create(t, iamAPI+"/globalroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRole",
			"metadata": obj{"name": name, "annotations": annotations}, "rules": rules})
		a.create(t, iamAPI+"/globalrolebindings", globalBinding(name, name, user))
	}
	for name, text := range map[string]string{
		"shift":     "bits.lsh(1, 10000000000) > 0",
		"squares":   doubling(40, "12345678901234567890", "x%[1]d := x%[2]d * x%[2]d") + "x40 > 0",
		"fractions": doubling(20, "1.5e30000", "x%[1]d := x%[2]d * x%[2]d") + "x20 > 0",
		"texts":     doubling(40, `"0123456789"`, `x%[1]d := hex.encode(x%[2]d)`) + `x40 != ""`,
		"lists":     doubling(40, "[1]", "x%[1]d := array.concat(x%[2]d, x%[2]d)") + "count(x40) > 0",
		"widths":    `sprintf("%2000000000d", [1]) != ""`,
		"kept":      "n := numbers.range(1, 9000)\ncount([x | y := n[_]; x := numbers.range(y, y + 9000)]) > 0",
		"nested":    "n := [1, 2, 3]\n" + doubling(60, "input.Name", "x%[1]d := [x%[2]d | n[_]]") + `json.marshal(x60) != ""`,
		"patterns":  `regex.match("(` + strings.Repeat("a?", 1500) + `){1000}", "a")`,
	} {
		t.Run(name, func(t *testing.T) {
			role := unique("hostile-" + name)
			user := newUser(t, role)
			grant(role, role, obj{"iam.kubesphere.io/rego-override": "package authz\nallow { input.Resource == \"configmaps\"; input.Name != \"bomb\" }\n" +
				"allow { input.Name == \"bomb\"\n" + text + "\n}"})
			eventually(t, "the policy counts", user.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/default/configmaps"))
			for range 3 {
				user.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/default/configmaps/bomb", nil)
			}
			// It counts as before; a busy machine may not give it the 100 ms that it has each time.
			eventually(t, "the policy still counts", user.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/default/configmaps"))
		})
	}
	doubled := strings.Repeat(".map(a, [a, a])", 40)
	numbers := "[0" + strings.Repeat(", 1", 199) + "]"
	configMaps := rule{[]string{""}, []string{"configmaps"}, []string{"get", "list"}}
	nodes := rule{[]string{""}, []string{"nodes"}, []string{"get", "list"}}
	for name, c := range map[string]struct {
		annotation, text string
	}{
		"a policy of nested types":    {"rego-override", "package authz\nallow {\n" + doubling(60, "input.Name", "x%[1]d := [x%[2]d, x%[2]d]") + "x60 == input\n}"},
		"a condition of nested lists": {"cel-condition", "[0]" + doubled + " == [0]" + doubled},
		"a condition of nested loops": {"cel-condition", numbers + ".all(a, " + numbers + ".all(b, " + numbers + ".all(c, " + numbers +
			".all(d, a + b + c + d >= 0))))"},
	} {
		t.Run(name, func(t *testing.T) {
			role := unique("nested")
			user := newUser(t, role)
			grant(role, role, obj{"iam.kubesphere.io/" + c.annotation: c.text}, nodes)
			grantGlobally(t, role, configMaps) // is read after the other one
			eventually(t, "the next role counts", user.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/default/configmaps"))
			user.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/default/secrets", nil)
			for range 3 * strings.Count(c.annotation, "cel") { // a condition that can't be found out lets nothing through; a policy only adds
				user.must(t, http.StatusForbidden, http.MethodGet, kapis+"/nodes", nil)
			}
		})
	}
	if now := started(t); now != since {
		t.Errorf("the process started anew: %s, and before %s", now, since)
	}
	if after := everTaken(t); after-before > 512<<20 {
		t.Errorf("the process has grown from %.0f to %.0f MiB", before/(1<<20), after/(1<<20))
	}
}
