package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be a yardstick process, as the program itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == yardstickCommand {
		if err := command(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	usual := options{bin: "bin", pods: []int{10000, 100000}, rounds: 5, people: 1000, real: 100_000, fleetSize: 100}
	tests := map[string]struct {
		args []string
		env  map[string]string
		want func(*options)
		err  string
	}{
		"Defaults":                  {want: func(*options) {}},
		"TheEnvironmentSetsTheSize": {env: map[string]string{"BENCH_PODS": "300", "BENCH_ROUNDS": "3"}, want: func(o *options) { o.pods, o.rounds = []int{300}, 3 }},
		"AFlagBeatsTheEnvironment":  {args: []string{"--pods=400"}, env: map[string]string{"BENCH_PODS": "300"}, want: func(o *options) { o.pods = []int{400} }},
		"Folders": {
			args: []string{"--bin", "b", "--dir", "d", "--kubeconfig", "k", "--keep"},
			want: func(o *options) { o.bin, o.dir, o.kubeconfig, o.keep = "b", "d", "k", true },
		},
		"NoClusterFromTheEnvironment": {env: map[string]string{"KUBECONFIG": "/somebody/elses"}, want: func(*options) {}},
		"Sizes":                       {args: []string{"--pods=200, 400"}, want: func(o *options) { o.pods = []int{200, 400} }},
		"ShrinkingSizes":              {args: []string{"--pods=400,200"}, err: "larger"},
		"ATable":                      {args: []string{"--markdown=t.md"}, want: func(o *options) { o.markdown = "t.md" }},
		"ASoak":                       {args: []string{"--soak=10m"}, want: func(o *options) { o.soak = 10 * time.Minute }},
		"ASoakForRaces":               {args: []string{"--soak=1m", "--race"}, want: func(o *options) { o.soak, o.race = time.Minute, true }},
		"Capacity":                    {args: []string{"--capacity"}, want: func(o *options) { o.capacity = true }},
		"CapacityOfRecordedPods":      {env: map[string]string{"CAPACITY_REAL": "500"}, want: func(o *options) { o.real = 500 }},
		"TooFewRealPods":              {args: []string{"--real=1"}, err: "CAPACITY_REAL"},
		"LoginsOnly":                  {env: map[string]string{"BENCH_ONLY": "login"}, want: func(o *options) { o.only = "login" }},
		"AccessOnly":                  {env: map[string]string{"BENCH_ONLY": "access"}, want: func(o *options) { o.only, o.people = "access", 10_000 }},
		"AuditOnly":                   {env: map[string]string{"BENCH_ONLY": "audit"}, want: func(o *options) { o.only = "audit" }},
		"SomeUsers":                   {env: map[string]string{"BENCH_USERS": "200"}, want: func(o *options) { o.people = 200 }},
		"TooFewUsers":                 {args: []string{"--users=1"}, err: "BENCH_USERS"},
		"FleetOnly":                   {env: map[string]string{"BENCH_ONLY": "fleet"}, want: func(o *options) { o.only = "fleet" }},
		"TooFewMembers":               {env: map[string]string{"BENCH_MEMBERS": "3"}, err: "BENCH_MEMBERS"},
		"AnUnknownPart":               {args: []string{"--only=logout"}, err: "BENCH_ONLY"},
		"NotANumber":                  {env: map[string]string{"BENCH_PODS": "many"}, err: "BENCH_PODS"},
		"TooFewPods":                  {args: []string{"--pods=10"}, err: "200"},
		"NoRounds":                    {args: []string{"--rounds=0"}, err: "BENCH_ROUNDS"},
		"AnArgument":                  {args: []string{"fast"}, err: "fast"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.args, func(k string) string { return tc.env[k] })
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			want := usual
			tc.want(&want)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	if err := command(t.Context(), []string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v, want flag.ErrHelp, which main takes for success", err)
	}
}

func TestAStackThatDoesNotStartIsAnErrorAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var out, progress strings.Builder
	err := options{bin: t.TempDir(), pods: []int{minPods}, rounds: 1}.run(t.Context(), &out, &progress)
	if err == nil || !strings.Contains(err.Error(), "run") {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if !strings.HasPrefix(out.String(), "# machine: ") {
		t.Errorf("printed %q, want the machine first", out.String())
	}
}
