package kube_test

import (
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/kube"
)

const maxVerbosity = 5 // the highest verbosity that can be set

// S57: at 6 client-go logs the addresses of requests with their queries, at 7 their headers, at 8 bodies.
func TestNoLevelOfLogsShowsRequests(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		v       string
		vmodule string
		refused bool
	}{
		"Default":            {nil, "0", "", false},
		"AsAsked":            {[]string{"--v=5"}, "5", "", false},
		"Above":              {[]string{"--v=6"}, "5", "", false},
		"ByItsLetter":        {[]string{"-v=10"}, "5", "", false},
		"Largest":            {[]string{"--v=2147483647"}, "5", "", false},
		"TooLargeForANumber": {[]string{"--v=99999999999"}, "0", "", true},
		"ModuleAbove":        {[]string{"--vmodule=request=10,round_trippers=4"}, "0", "request=5,round_trippers=4", false},
		"ModuleOfAPath":      {[]string{"--vmodule=*=9"}, "0", "*=5", false},
		"NoNumber":           {[]string{"--v=many"}, "0", "", true},
		"ModuleWithoutLevel": {[]string{"--vmodule=request"}, "0", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
			kube.LogFlags(fs)
			t.Cleanup(func() {
				_ = fs.Set("v", "0")
				_ = fs.Set("vmodule", "")
			})
			if err := fs.Parse(c.args); (err != nil) != c.refused {
				t.Fatalf("error = %v, want one: %v", err, c.refused)
			}
			if c.refused {
				return
			}
			if got := fs.Lookup("v").Value.String(); got != c.v {
				t.Errorf("v = %s, want %s", got, c.v)
			}
			if got := fs.Lookup("vmodule").Value.String(); got != c.vmodule {
				t.Errorf("vmodule = %s, want %s", got, c.vmodule)
			}
			if klog.V(maxVerbosity + 1).Enabled() {
				t.Error("level 6 is logged")
			}
		})
	}
}
