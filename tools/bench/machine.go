package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine describes the machine in one line: ratios can be compared between machines, absolute numbers can't.
func machine() string {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // without it the model is unknown
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("# machine: %d cores, %s, %s %s, %s", runtime.NumCPU(), modelName(string(cpuinfo)), runtime.GOOS,
		strings.TrimSpace(string(release)), runtime.Version())
}

// modelName picks the processor's name out of /proc/cpuinfo; not all platforms have one there.
func modelName(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
