package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"kapis.dev/ks-apiserver/tools/stack"
)

// shards is how many parts all tests run in, side by side, each with a control plane and programs of its own: the tests wait for most of
// their time, and one after the other they take an hour.
const shards = 3

// The flags of a shard: the folder with the programs that all shards share, and the file that it writes the rules to which its tests hold.
var (
	shardBin  = flag.String("shard-bin", "", "run a part of the tests, with the programs of this folder")
	shardHeld = flag.String("shard-held", "", "where this part writes which tests hold which rules")
)

// long has the seconds of tests that take long, so that the shards end at about the same time. Every other test counts as a few.
var long = map[string]int{
	"TestUpgradeAndWayBack": 400, "TestNoAnswerShowsWhatIsHidden": 200, "TestQueriesOfManyPodsAnswerLikeThePlainModel": 150,
	"TestAnInstallationOfTheChartIsServedUnchanged": 150, "TestU50NothingDeletedLeavesARight": 140, "TestRotationUnderLoad": 120,
	"TestSweep": 100, "TestTheConfigurationOfAnInstallationMovesIntoASecret": 90, "TestAnExistingInstallationIsServedAsItIs": 90,
	"TestNoBodyWritesOutsideOfItsPath": 110, "TestForgedServiceAccountTokensCostARealPodNothing": 80,
	"TestAKilledInstanceStartsAgainAndLeavesNothing": 75, "TestAnInstallationMakesASecretForTheConsole": 75,
	"TestARestoredBackupIsWhatAllReplicasHave": 70, "TestAggregatedQueriesThroughKubeAPIServer": 65, "TestU53TheOtherManagerGoesOn": 60,
	"TestWhatIsLeftOfNodeShellsIsDeleted": 60, "TestAnAnswerThatGrowsIsGivenUp": 55, "TestNothingIsStoredForWhoHasNotLoggedIn": 50,
	"TestKubectlIsAnsweredAsByKubeAPIServer": 50, "TestAdmissionPoliciesHold": 35, "TestABodyThatGrowsIsRefused": 30,
}

const fewSeconds = 6

func flagValue(name string) string { return flag.Lookup(name).Value.String() }

// chosen reports whether the command line asks for some tests, and not for all.
func chosen() bool { return flagValue("test.run") != "" || flagValue("test.skip") != "" }

// runShards runs all tests in shards, and returns the exit code of all.
func runShards() int {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ks-e2e-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	repo, err := filepath.Abs("../..")
	if err != nil {
		return fail(err)
	}
	bin, err := stack.Build(ctx, repo, *productRace)
	if err != nil {
		return fail(err)
	}
	listed, err := exec.CommandContext(ctx, os.Args[0], "-test.list=^Test").Output()
	if err != nil {
		return fail(fmt.Errorf("list the tests: %w", err))
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		code int
	)
	for i, names := range split(strings.Fields(string(listed)), shards) {
		wg.Go(func() {
			base := filepath.Join(dir, fmt.Sprintf("shard-%d", i+1))
			err := runShard(ctx, bin, base, names)
			printed, _ := os.ReadFile(base + ".log")
			mu.Lock()
			defer mu.Unlock()
			_, _ = os.Stdout.Write(printed)
			if err != nil {
				fmt.Printf("shard %d of %d, %d tests: %v\n", i+1, shards, len(names), err)
				code = 1
			}
		})
	}
	wg.Wait()
	if code == 0 {
		if err := checkRules(); err != nil {
			return fail(err)
		}
	}
	return code
}

// runShard runs some tests in a process of their own, which prints into base.log, and records the rules that they hold.
func runShard(ctx context.Context, bin, base string, names []string) error {
	out, err := os.Create(base + ".log")
	if err != nil {
		return err
	}
	defer out.Close()
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-test.testlogfile") })
	// The later flag counts. Tests with a control plane of their own run beside those of the other shards, and not beside each other.
	args = append(args, "-test.run=^("+strings.Join(names, "|")+")$", "-test.parallel=1", "-shard-bin="+bin, "-shard-held="+base+".json")
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return err
	}
	raw, err := os.ReadFile(base + ".json")
	if err != nil {
		return err
	}
	found := map[string][]string{}
	if err := json.Unmarshal(raw, &found); err != nil {
		return fmt.Errorf("read which rules are held: %w", err)
	}
	held.Add(found)
	return nil
}

// writeHeld writes which tests of this shard hold which rules.
func writeHeld() error {
	raw, err := json.Marshal(held.Held())
	if err != nil {
		return err
	}
	return os.WriteFile(*shardHeld, raw, 0o600)
}

// split divides tests into n parts that take about as long as each other. The order within a part is that of the source.
func split(names []string, n int) [][]string {
	seconds := func(name string) int { return cmp.Or(long[name], fewSeconds) }
	longest := slices.Clone(names)
	slices.SortStableFunc(longest, func(a, b string) int { return cmp.Compare(seconds(b), seconds(a)) })
	sums, part := make([]int, n), map[string]int{}
	for _, name := range longest {
		least := slices.Index(sums, slices.Min(sums))
		part[name] = least
		sums[least] += seconds(name)
	}
	out := make([][]string, n)
	for _, name := range names {
		out[part[name]] = append(out[part[name]], name)
	}
	return out
}
