package kube

import (
	"flag"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// maxVerbosity is the highest level of logs. From 6 on client-go logs the addresses of requests to kube-apiserver with their queries,
// from 7 on their headers, from 8 on the bodies of requests and answers. They include what callers have sent: the command of an exec, the
// key of a workload's own API, passwords, the data of Secrets. This program logs nothing at such a level.
const maxVerbosity = 5

// LogFlags adds --v and --vmodule, which set how much is logged. A level above 5 is reduced to 5: no level shows a secret.
func LogFlags(fs *pflag.FlagSet) {
	all := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(all)
	v, vmodule := all.Lookup("v"), all.Lookup("vmodule")
	v.Usage = "number for the log level verbosity, at most " + strconv.Itoa(maxVerbosity)
	v.Value = capped{v.Value, capLevel}
	vmodule.Value = capped{vmodule.Value, capLevels}
	fs.AddGoFlag(v)
	fs.AddGoFlag(vmodule)
}

// capped is a flag whose value is bounded before it is set.
type capped struct {
	flag.Value
	bound func(string) string
}

// Set sets the bounded value.
func (c capped) Set(s string) error { return c.Value.Set(c.bound(s)) }

// capLevel bounds a level. klog itself refuses what is no number.
func capLevel(s string) string {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= maxVerbosity {
		return s
	}
	klog.InfoS("The log level is lower than asked for: above it the contents of requests to Kubernetes would be logged, and secrets with them",
		"asked", n, "level", maxVerbosity)
	return strconv.Itoa(maxVerbosity)
}

// capLevels bounds each level in a list of "pattern=level".
func capLevels(s string) string {
	list := strings.Split(s, ",")
	for n, one := range list {
		if pattern, level, ok := strings.Cut(one, "="); ok {
			list[n] = pattern + "=" + capLevel(level)
		}
	}
	return strings.Join(list, ",")
}
