package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestParseReady(t *testing.T) {
	tests := map[string]struct {
		line, url, tlsURL string
		fails             bool
	}{
		"TwoAddresses":       {line: "READY http://127.0.0.1:9090 https://127.0.0.1:9443", url: "http://127.0.0.1:9090", tlsURL: "https://127.0.0.1:9443"},
		"SlashesAreDropped":  {line: "READY http://h:1/ https://h:2/", url: "http://h:1", tlsURL: "https://h:2"},
		"OneAddressIsWrong":  {line: "READY http://127.0.0.1:9090", fails: true},
		"SwappedIsWrong":     {line: "READY https://127.0.0.1:9443 http://127.0.0.1:9090", fails: true},
		"AnotherLineIsWrong": {line: "READYISH http://a https://b", fails: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			url, tlsURL, err := parseReady(tc.line)
			if (err != nil) != tc.fails || url != tc.url || tlsURL != tc.tlsURL {
				t.Errorf("got %q, %q, %v", url, tlsURL, err)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	const line = "3872 (h8) x (y)) S 3866 3834 1021 0 -1 4194304 200 0 0 0 49 7 0 0 20 0 4 0 219175 1256853504 554"
	tests := map[string]struct {
		line  string
		want  stat
		fails bool
	}{
		"NamesMayHoldParentheses": {line: line, want: stat{parent: 3866, cpu: 560 * time.Millisecond}},
		"NoName":                  {line: "1 S 2 3", fails: true},
		"TooShort":                {line: "1 (a) S 2 3", fails: true},
		"ParentIsNoNumber":        {line: strings.Replace(line, "S 3866", "S x", 1), fails: true},
		"UserTimeIsNoNumber":      {line: strings.Replace(line, " 49 ", " x ", 1), fails: true},
		"SystemTimeIsNoNumber":    {line: strings.Replace(line, " 7 ", " x ", 1), fails: true},
		"Empty":                   {fails: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tc.line)
			if (err != nil) != tc.fails || got != tc.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("3872 (a) S 3866 3834 1021 0 -1 4194304 200 0 0 0 49 7 0 0 20 0 4 0 219175")
	f.Add(") S 1")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		if st, err := parseStat(line); err != nil && st != (stat{}) {
			t.Errorf("an error and %+v", st)
		}
		_, _ = parseResident(line)
	})
}

func TestParseResident(t *testing.T) {
	tests := map[string]struct {
		line  string
		want  int64
		fails bool
	}{
		"SecondField": {line: "306849 603 462 196 0 10203 0\n", want: 603},
		"TooShort":    {line: "306849", fails: true},
		"NoNumber":    {line: "1 x", fails: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := parseResident(tc.line); (err != nil) != tc.fails || got != tc.want {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestParsePeak(t *testing.T) {
	tests := map[string]struct {
		status string
		want   int64
		fails  bool
	}{
		"BetweenOthers": {status: "Name:\tx\nVmPeak:\t  200 kB\nVmHWM:\t  603 kB\nVmRSS:\t  100 kB\n", want: 603 << 10},
		"NoField":       {status: "Name:\tVmHWM\n", fails: true},
		"NoNumber":      {status: "VmHWM:\tx kB\n", fails: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := parsePeak(tc.status); (err != nil) != tc.fails || got != tc.want {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestIsProgram(t *testing.T) {
	tests := map[string]struct {
		argv []string
		name string
		want bool
	}{
		"ByItsFile":                     {[]string{"/bin/ks-apiserver", "--v=2"}, "ks-apiserver", true},
		"ByItsRole":                     {[]string{"/bin/dev", "kube-apiserver", "--x"}, "kube-apiserver", true},
		"TheSupervisorItself":           {[]string{"/bin/dev", "up"}, "dev", true},
		"AnArgumentIsNoName":            {[]string{"/bin/run", "ks-apiserver"}, "ks-apiserver", false},
		"ALongerNameIsAnother":          {[]string{"/bin/ks-apiserver-2"}, "ks-apiserver", false},
		"AKernelThreadHasNoCommandLine": {nil, "ks-apiserver", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isProgram(tc.argv, tc.name); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestCPUOfAMissingProcessIsAnError(t *testing.T) {
	const none = 1 << 22 // above the kernel's largest pid_max
	if _, err := CPU(none); err == nil {
		t.Error("CPU: no error")
	}
	if _, err := RSS(none); err == nil {
		t.Error("RSS: no error")
	}
}

func TestCPUCountsThisProcess(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for { // work until it shows: the test's own time limit is the bound
		after, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			return
		}
	}
}

func TestOutput(t *testing.T) {
	t.Run("KeepsTheLastLines", func(t *testing.T) {
		o := newOutput(nil)
		for i := range 3 * tailLines {
			fmt.Fprintf(o, "line %d\n", i)
		}
		fmt.Fprint(o, "no end")
		lines := strings.Split(o.tail(), "\n")
		if len(lines) != tailLines+1 || lines[0] != "line 80" || lines[tailLines] != "no end" {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
	})
	t.Run("JoinsAReadyLineThatComesInPieces", func(t *testing.T) {
		o := newOutput(nil)
		for _, piece := range []string{"first\nREA", "DY a", " b", "\nREADY again\n"} {
			fmt.Fprint(o, piece)
		}
		if got := <-o.ready; got != "READY a b" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("CutsLinesWithoutEnd", func(t *testing.T) {
		o := newOutput(nil)
		for range 3 {
			fmt.Fprint(o, strings.Repeat("x", lineBytes-1))
		}
		if got := len(o.tail()); got != lineBytes {
			t.Errorf("%d bytes are kept, want %d", got, lineBytes)
		}
	})
	t.Run("AFullLogDoesNotStopTheChild", func(t *testing.T) {
		o := newOutput(failingWriter{})
		if n, err := o.Write([]byte("a\n")); n != 2 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestRepo(t *testing.T) {
	inside, err := Repo(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(inside, "tools", "stack")); err != nil {
		t.Error(err)
	}
	outside := t.TempDir()
	if got, err := Repo(outside, "."); err != nil || got != inside {
		t.Errorf("the second folder: %q, %v", got, err)
	}
	if got, err := Repo(outside); err == nil {
		t.Errorf("outside a checkout: %q", got)
	}
}

func TestBuildNeedsTheControlPlane(t *testing.T) {
	_, err := Build(t.Context(), t.TempDir(), false)
	if err == nil || !strings.Contains(err.Error(), "tools/dev/build.sh") {
		t.Errorf("error %v does not say what to do", err)
	}
}

func TestLinkReplacesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "kubectl")
	for _, target := range []string{"old", "dev", "dev"} {
		if err := link(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.Readlink(name); err != nil || got != "dev" {
		t.Errorf("link to %q, %v", got, err)
	}
}

func TestOneBuildAtATime(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			unlock, err := lock(filepath.Join(dir, ".lock"))
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			building := filepath.Join(dir, "building")
			if err := os.Mkdir(building, 0o700); err != nil {
				t.Errorf("two build at a time: %v", err)
			}
			if err := os.Remove(building); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
