package helm_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/tools/pace"
)

// stay keeps the process until it is killed. In a program without cgo, Go takes a bare select for a deadlock and ends it.
func stay() { <-time.After(time.Hour) }

// A child in these tests is this program with the argument "child" and what it does.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		child(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func child(does string) {
	var job helm.Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil && does != "parent" {
		fmt.Println("no job:", err)
	}
	write := func(l helm.Line) { _ = json.NewEncoder(os.Stdout).Encode(l) }
	message := func(format string, args ...any) {
		write(helm.Line{Event: helm.Event{Message: fmt.Sprintf(format, args...)}})
	}
	switch does {
	case "work":
		message("begin")
		write(helm.Line{Done: true, Result: &helm.Result{Manifest: job.Request.Name}})
	case "tell":
		message("%q %q", os.Environ(), os.Args)
		write(helm.Line{Done: true, Error: &helm.Error{Reason: helm.ReasonFailed, Message: string(job.Request.Values) + string(job.Request.SecretValues)},
			Result: &helm.Result{Manifest: string(job.Request.Values), Kept: []string{string(job.Request.SecretValues)}}})
	case "stay":
		message("%d", os.Getpid())
		stay()
	case "render":
		write(helm.Line{Event: helm.Event{Phase: helm.PhaseRendering}})
		stay()
	case "rendered":
		write(helm.Line{Event: helm.Event{Phase: helm.PhaseRendering}})
		write(helm.Line{Event: helm.Event{Phase: helm.PhaseApplying}})
		message("%d", os.Getpid())
		stay()
	case "nonsense":
		fmt.Println("hello")
		stay()
	case "line":
		for {
			_, _ = os.Stdout.WriteString(strings.Repeat("x", 1<<16))
		}
	case "lines":
		for {
			message("again %s", strings.Repeat("x", 1<<16))
		}
	case "panic":
		_, _ = io.WriteString(os.Stderr, strings.Repeat("a log\n", 100000))
		panic("of the chart")
	case "quiet":
	case "linger":
		_ = os.Stdout.Close()
		stay()
	case "parent":
		_, _ = executor("stay", helm.Options{}).Run(context.Background(), request("a"), func(e helm.Event) { fmt.Println(e.Message) })
	}
}

func executor(does string, o helm.Options) *helm.Executor {
	o.Program = []string{os.Args[0], "child", does}
	return helm.New(o)
}

func request(name string) helm.Request {
	return helm.Request{Operation: helm.Status, Name: name, Namespace: "shop", Cluster: helm.Connection{Host: "https://127.0.0.1:1", User: "u"}}
}

func reason(err error) helm.Reason {
	var e *helm.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func TestRequestsThatAreNotValidStartNothing(t *testing.T) {
	for name, change := range map[string]func(*helm.Request){
		"no operation":        func(r *helm.Request) { r.Operation = "" },
		"another operation":   func(r *helm.Request) { r.Operation = "Apply" },
		"no user":             func(r *helm.Request) { r.Cluster.User = "" },
		"no cluster":          func(r *helm.Request) { r.Cluster.Host = "" },
		"no name":             func(r *helm.Request) { r.Name = "" },
		"a long name":         func(r *helm.Request) { r.Name = strings.Repeat("a", 54) },
		"a path as a name":    func(r *helm.Request) { r.Name = "../a" },
		"a selector":          func(r *helm.Request) { r.Name = "a,owner!=helm" },
		"no namespace":        func(r *helm.Request) { r.Namespace = "" },
		"a path as namespace": func(r *helm.Request) { r.Namespace = "a/../kube-system" },
		"an ID of two lines":  func(r *helm.Request) { r.ID = "a\nb" },
		"no chart":            func(r *helm.Request) { r.Operation = helm.Apply },
		"a chart too many":    func(r *helm.Request) { r.Chart = []byte("x") },
		"a large chart":       func(r *helm.Request) { r.Operation, r.Chart = helm.Apply, make([]byte, helm.MaxArchive+1) },
		"large values":        func(r *helm.Request) { r.Values = make([]byte, helm.MaxValues+1) },
		"large secret values": func(r *helm.Request) { r.SecretValues = make([]byte, helm.MaxValues+1) },
		"values of no object": func(r *helm.Request) { r.Values = []byte("- a") },
		"a label's key":       func(r *helm.Request) { r.Labels = map[string]string{"a b": "c"} },
		"a boolean as a key":  func(r *helm.Request) { r.Labels = map[string]string{"y": "c"} },
		"a label's value":     func(r *helm.Request) { r.Labels = map[string]string{"a": "c\nd"} },
	} {
		r := request("a")
		change(&r)
		started := false
		if _, err := executor("work", helm.Options{}).Run(t.Context(), r, func(helm.Event) { started = true }); reason(err) != helm.ReasonInvalid || started {
			t.Errorf("%s: %v, started: %v", name, err, started)
		}
	}
}

// X15: at most four operations run at once, and one of a release.
func TestOperationsAreBounded(t *testing.T) {
	e := executor("stay", helm.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	begun := make(chan struct{})
	for _, name := range []string{"a", "b", "c", "d"} {
		running.Go(func() {
			if _, err := e.Run(ctx, request(name), func(helm.Event) { begun <- struct{}{} }); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for range 4 {
		<-begun
	}
	// Neither a fifth one nor a second one of a release begins while these run, and one that waits for its turn can be given up.
	given, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	var waiting sync.WaitGroup
	for _, name := range []string{"a", "e"} {
		waiting.Go(func() {
			if _, err := e.Run(given, request(name), func(helm.Event) { t.Errorf("%s begins", name) }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	waiting.Wait()
	cancel()
	running.Wait()
	// One of a release waits for the one before it, also where there is room for more.
	first, end := context.WithCancel(t.Context())
	running.Go(func() {
		if _, err := e.Run(first, request("a"), func(helm.Event) { begun <- struct{}{} }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	<-begun
	short, stopped := context.WithTimeout(t.Context(), time.Second)
	defer stopped()
	if _, err := e.Run(short, request("a"), func(helm.Event) { t.Error("a second one of a release begins") }); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	end()
	running.Wait()
	if result, err := executor("work", helm.Options{}).Run(t.Context(), request("a"), func(helm.Event) {}); err != nil || result.Manifest != "a" {
		t.Errorf("%+v, %v", result, err)
	}
}

// X15: a child that takes too long, says too much or nothing, or breaks, ends, and its reason is told.
func TestAChildThatMisbehavesEnds(t *testing.T) {
	short := helm.Options{Timeout: 2 * time.Second}
	for does, c := range map[string]struct {
		o      helm.Options
		reason helm.Reason
		says   string
	}{
		"stay":     {short, helm.ReasonTimeout, "longer than 2s"},
		"render":   {helm.Options{RenderTimeout: time.Second}, helm.ReasonTimeout, "longer than 1s to render"},
		"rendered": {helm.Options{Timeout: 6 * time.Second, RenderTimeout: 3 * time.Second}, helm.ReasonTimeout, "longer than 6s (helmExecutor.timeout)"},
		"linger":   {short, helm.ReasonTimeout, "longer than 2s"},
		"nonsense": {helm.Options{}, helm.ReasonInterrupted, "no event"},
		"line":     {helm.Options{}, helm.ReasonTooLarge, "a line of more than"},
		"lines":    {helm.Options{}, helm.ReasonTooLarge, "wrote more than"},
		"panic":    {helm.Options{}, helm.ReasonInterrupted, "panic: of the chart"},
		"quiet":    {helm.Options{}, helm.ReasonInterrupted, "its process ended"},
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			result, err := executor(does, c.o).Run(t.Context(), request("a"), nil)
			if reason(err) != c.reason || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 5000 || result != nil {
				t.Errorf("%v, %v", result, err)
			}
		})
	}
	if _, err := helm.New(helm.Options{Program: []string{"/nonexistent"}}).Run(t.Context(), request("a"), nil); reason(err) != helm.ReasonInterrupted {
		t.Error(err)
	}
}

// X40: no secret is in a child's environment or arguments, and what it says has no content of the values.
func TestValuesAreNotTold(t *testing.T) {
	t.Setenv("KUBESPHERE_ADMIN_PASSWORD", "P4ssw0rd")
	r := request("a")
	r.Values, r.SecretValues = []byte("a: {b: [first-canary]}\nc: short\nd: \"two\\\"quoted\\nlines-of-it\""), []byte("k: K3yZ")
	r.Cluster.Token = "a-token"
	var events string
	result, err := executor("tell", helm.Options{}).Run(t.Context(), r, func(e helm.Event) { events += e.Message })
	if reason(err) != helm.ReasonFailed || result == nil {
		t.Fatalf("%v, %v", result, err)
	}
	said := events + err.Error() + result.Manifest + strings.Join(result.Kept, "")
	for _, no := range []string{"P4ssw0rd", "first-canary", "K3yZ", "a-token", "lines-of-it", base64.StdEncoding.EncodeToString([]byte("K3yZ"))} {
		if strings.Contains(said, no) {
			t.Errorf("%s is told: %s", no, said)
		}
	}
	if !strings.Contains(said, "short") || strings.Count(events, "=") != 3 {
		t.Errorf("%s", said)
	}
}

// X26: a child dies with the program that started it, whatever ended that.
func TestAChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0], "child", "parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	err = pace.Until(t.Context(), 10*time.Second, func(context.Context) error {
		if running(pid) {
			return errors.New("the child goes on")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// running returns whether a process is there and no zombie.
func running(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(raw), ") Z ") && !strings.Contains(string(raw), ") X ")
}

func TestAConnectionIsSelfContained(t *testing.T) {
	dir := t.TempDir()
	token := dir + "/token"
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := &rest.Config{Host: "https://a", BearerTokenFile: token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
	c, err := helm.ConnectionOf(file, "u", []string{"g"})
	if err != nil || c.Token != "t0ken" || string(c.CA) != "ca" {
		t.Errorf("%+v, %v", c, err)
	}
	own, as := c.Config(false), c.Config(true)
	if own.Impersonate.UserName != "" || as.Impersonate.UserName != "u" || as.Impersonate.Groups[0] != "g" || as.Insecure {
		t.Errorf("%+v, %+v", own.Impersonate, as.Impersonate)
	}
	for name, cfg := range map[string]*rest.Config{
		"a file that is not there": {BearerTokenFile: dir + "/nothing"},
		"no verification":          {TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		"a password":               {Username: "a", Password: "b"},
	} {
		if _, err := helm.ConnectionOf(cfg, "u", nil); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
