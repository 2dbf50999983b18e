package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// kubectlPatience bounds one command: several run at a time, on machines that are busy.
const kubectlPatience = 3 * time.Minute

// side is one of the two ways to the same cluster: kube-apiserver itself, or ks-apiserver.
type side struct {
	name       string
	kubeconfig string
	dir        string // the working folder and kubectl's cache
	ns         string // all of its own objects are in it, or have its name in theirs
	node       string // the simulated node that it may cordon and drain
}

// kubectlAnswer is what a person sees of a command.
type kubectlAnswer struct {
	stdout, stderr string
	code           int
}

// TestKubectlIsAnsweredAsByKubeAPIServer runs each command of kubectlScripts directly and through ks-apiserver, each in a namespace of its
// own, and compares standard output, standard error and exit code byte for byte, after normal: O37.
func TestKubectlIsAnsweredAsByKubeAPIServer(t *testing.T) {
	t.Parallel() // beside those that have a control plane of their own: much of its time is waiting
	var mu sync.Mutex
	count := 0
	t.Run("scripts", func(t *testing.T) {
		for name, script := range kubectlScripts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := compareKubectl(t, script)
				mu.Lock()
				defer mu.Unlock()
				count += n
			})
		}
	})
	if count < 100 && !t.Failed() {
		t.Errorf("%d commands were compared, want at least 100", count)
	}
}

// compareKubectl runs one script on both sides at a time, and returns how many commands it has.
func compareKubectl(t *testing.T, script []command) int {
	t.Helper()
	sides := newSides(t)
	results := make([][]kubectlAnswer, len(sides))
	var running sync.WaitGroup
	for i, s := range sides {
		running.Go(func() {
			for _, c := range script {
				results[i] = append(results[i], s.run(t, c))
			}
		})
	}
	running.Wait()
	for i, c := range script {
		direct, through := sides[0].normal(results[0][i]), sides[1].normal(results[1][i])
		if c.alter != nil {
			direct, through = c.alter(direct), c.alter(through)
		}
		switch {
		case direct == through && c.differs != "":
			t.Errorf("kubectl %s gives the same on both ways: it is listed as different, because %s\n%s", c.line, c.differs, direct.stdout)
		case direct != through && c.differs == "":
			t.Errorf("kubectl %s\n%s", c.line, difference(direct, through))
		case c.code >= 0 && direct.code != c.code && c.differs == "":
			t.Errorf("kubectl %s ends with %d on both ways, want %d: it compares nothing of use\n%s%s", c.line, direct.code, c.code, direct.stdout, direct.stderr)
		}
	}
	return len(script)
}

func newSides(t *testing.T) [2]*side {
	t.Helper()
	at := unique("same")
	sides := [2]*side{
		{name: "directly", kubeconfig: "kubeconfig", ns: at + "-a", node: "dev-node-1"},
		{name: "through ks-apiserver", kubeconfig: "ks.kubeconfig", ns: at + "-b", node: "dev-node-2"},
	}
	for _, s := range sides {
		s.kubeconfig = filepath.Join(product.Dir, s.kubeconfig)
		s.dir = t.TempDir()
		for file, text := range kubectlFiles {
			if err := os.WriteFile(filepath.Join(s.dir, file), []byte(s.expand(text)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.must(t, "create namespace "+s.ns)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), kubectlPatience)
			defer cancel()
			_ = s.kubectl(ctx, "delete namespace --wait=false "+s.ns).Run()
		})
		// The service account of a namespace comes a moment after it, and pods are refused until then.
		s.must(t, "wait --for=create serviceaccount/default configmap/kube-root-ca.crt --timeout=120s")
	}
	return sides
}

func (s *side) must(t *testing.T, line string) {
	t.Helper()
	if out, err := s.kubectl(t.Context(), line).CombinedOutput(); err != nil {
		t.Fatalf("%s: kubectl %s: %v\n%s", s.name, line, err, out)
	}
}

// expand writes the names of the side into a command or a file.
func (s *side) expand(text string) string {
	return strings.NewReplacer("$NODE", s.node, "$N", s.ns).Replace(text)
}

// kubectl is a command of the side, in its namespace. Words are parted by blanks, except within single quotes.
func (s *side) kubectl(ctx context.Context, line string) *exec.Cmd {
	args := append([]string{"--kubeconfig", s.kubeconfig, "--cache-dir", filepath.Join(s.dir, "cache"), "-n", s.ns}, words(s.expand(line))...)
	cmd := exec.CommandContext(ctx, product.Program("kubectl"), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "KUBE_EDITOR=sed -i s/one/two/", "HOME="+s.dir, "KUBECTL_EXTERNAL_DIFF=diff -u -L LIVE -L MERGED")
	return cmd
}

// words parts a line as a shell does that knows blanks and single quotes.
func words(line string) []string {
	var list []string
	var word strings.Builder
	inWord, quoted := false, false
	for _, c := range line {
		switch {
		case c == '\'':
			inWord, quoted = true, !quoted
		case c == ' ' && !quoted:
			if inWord {
				list = append(list, word.String())
			}
			word.Reset()
			inWord = false
		default:
			inWord = true
			word.WriteRune(c)
		}
	}
	if inWord {
		list = append(list, word.String())
	}
	return list
}

// run runs a command to its end; one that takes longer than patience fails the test.
func (s *side) run(t *testing.T, c command) kubectlAnswer {
	ctx, cancel := context.WithTimeout(t.Context(), kubectlPatience)
	defer cancel()
	cmd := s.kubectl(ctx, c.line)
	cmd.Stdin = strings.NewReader(s.expand(c.stdin))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var err error
	if c.until == "" {
		err = cmd.Run()
	} else {
		err = s.runUntil(ctx, cmd, &stdout, c)
	}
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: kubectl %s: %v, %v\n%s%s", s.name, c.line, err, ctx.Err(), &stdout, &stderr)
	}
	o := kubectlAnswer{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if c.until != "" {
		o.code = 0 // it was ended by this test
	}
	return o
}

// runUntil starts a command that does not end by itself, such as a watch, runs those that it has to see once it shows the line c.begun,
// and ends it when it shows the line c.until.
func (s *side) runUntil(ctx context.Context, cmd *exec.Cmd, stdout *bytes.Buffer, c command) error {
	lines := &lineWriter{to: stdout, shown: make(chan string, 1000)}
	cmd.Stdout = lines
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	meanwhile := c.meanwhile
	for {
		select {
		case line := <-lines.shown:
			if strings.Contains(line, c.begun) {
				for _, m := range meanwhile {
					if out, err := s.kubectl(ctx, m).CombinedOutput(); err != nil {
						return fmt.Errorf("%s, meanwhile: %w: %s", m, err, out)
					}
				}
				meanwhile = nil
			}
			if strings.Contains(line, c.until) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lineWriter passes on what is written, and tells of each whole line.
type lineWriter struct {
	to      *bytes.Buffer
	partial []byte
	shown   chan string
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.partial = append(w.partial, b...)
	for {
		line, rest, ok := bytes.Cut(w.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		fmt.Fprintf(w.to, "%s\n", line)
		w.shown <- string(line)
		w.partial = rest
	}
}

// replacements are all that normal changes, in this order, with the reason. Everything else has to be equal.
var replacements = []struct {
	of, by, because string
}{
	{`https://127\.0\.0\.1:\d+`, "SERVER", "the address of the server is what differs"},
	{`127\.0\.0\.1:\d+`, "PORT", "port-forward and proxy choose a free port"},
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UID", "each run makes objects of its own; requests have ids too"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME", "times of objects"},
	{`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (\+0000|GMT)`, "TIME", "times of objects in describe, and the header Date"},
	{`(?m)(resourceVersion(?:\\?")?[:=] ?(?:\\?")?|Resource Version: +)\d+`, "${1}VERSION", "versions count all writes to the cluster"},
	{`(?m)^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (\w+\.go:\d+\])`, "$1", "the head of a log line has the time and the process"},
	{`(?m)^envvar\.go:\d+\] "Feature gate default state" .*\n`, "", "kubectl's own feature gates, in no order"},
	{`kube-api-access-\w+`, "kube-api-access", "the name of that volume is chosen anew for each pod"},
	{`milliseconds=\d+`, "milliseconds=N", "how long it took"},
	{`(?m)[ \t]*\b(\d+[dhm])*\d+[dhms]( ago|\b)[ \t]*`, " AGE ", "ages, with the blanks that pad their column"},
	{`Content-Length: \d+`, "Content-Length: N", "a table has ages, of different length"},
	{`\[truncated \d+ chars\]`, "[truncated]", "the same, in what -v=8 shows of a body"},
	{`(?m)AGE +`, "AGE ", "the padding of that column's head"},
	{`[ \t]*\b10\.\d+\.\d+\.\d+\b[ \t]*`, " IP ", "addresses of pods and services, with the blanks that pad their column"},
	{`(?m)(CLUSTER-IP|IP) +`, "$1 ", "the padding of that column's head"},
	{`(?m)^\tAuthorization: Bearer <masked>\n`, "", "the administrator has a certificate directly, and a token through ks-apiserver"},
	{`(?m)^\tX-Content-Type-Options: nosniff\n`, "", "ks-apiserver's answers say it, since browsers read them too"},
}

var compiled = func() (list []*regexp.Regexp) {
	for _, r := range replacements {
		list = append(list, regexp.MustCompile(r.of))
	}
	return list
}()

// withoutChanges returns what kubectl has printed, without all that normal changes whoever asks.
func withoutChanges(text string) string {
	for i, r := range compiled {
		text = r.ReplaceAllString(text, replacements[i].by)
	}
	return text
}

// normal returns the answer without what no two runs have in common.
func (s *side) normal(o kubectlAnswer) kubectlAnswer {
	clean := func(text string) string {
		text = strings.ReplaceAll(text, s.kubeconfig, "KUBECONFIG")
		text = strings.ReplaceAll(text, s.dir, "DIR")
		text = strings.ReplaceAll(text, s.ns, "NAMESPACE")
		return withoutChanges(strings.ReplaceAll(text, s.node, "NODE"))
	}
	return kubectlAnswer{clean(o.stdout), clean(o.stderr), o.code}
}

// difference shows the first lines that differ, with one before them.
func difference(direct, through kubectlAnswer) string {
	if direct.code != through.code {
		return fmt.Sprintf("directly it ends with %d: %s%s\nthrough ks-apiserver with %d: %s%s", direct.code, clip(direct.stdout), clip(direct.stderr),
			through.code, clip(through.stdout), clip(through.stderr))
	}
	for _, of := range []struct{ name, direct, through string }{
		{"output", direct.stdout, through.stdout}, {"standard error", direct.stderr, through.stderr},
	} {
		a, b := strings.Split(of.direct, "\n"), strings.Split(of.through, "\n")
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || a[i] != b[i] {
				return fmt.Sprintf("line %d of its %s\ndirectly:\n%s\nthrough ks-apiserver:\n%s", i+1, of.name,
					strings.Join(a[max(0, min(i-1, len(a))):min(i+6, len(a))], "\n"), strings.Join(b[max(0, min(i-1, len(b))):min(i+6, len(b))], "\n"))
			}
		}
	}
	return ""
}
