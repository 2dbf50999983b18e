package kube

import (
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// S57: at 8 client-go logs the bodies of requests and answers.
func TestNoLevelOfLogsShowsBodies(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		v       string
		vmodule string
		refused bool
	}{
		"Default":            {nil, "0", "", false},
		"AsAsked":            {[]string{"--v=7"}, "7", "", false},
		"Above":              {[]string{"--v=8"}, "7", "", false},
		"ByItsLetter":        {[]string{"-v=10"}, "7", "", false},
		"Largest":            {[]string{"--v=2147483647"}, "7", "", false},
		"TooLargeForANumber": {[]string{"--v=99999999999"}, "0", "", true},
		"ModuleAbove":        {[]string{"--vmodule=request=10,round_trippers=6"}, "0", "request=7,round_trippers=6", false},
		"ModuleOfAPath":      {[]string{"--vmodule=*=9"}, "0", "*=7", false},
		"NoNumber":           {[]string{"--v=many"}, "0", "", true},
		"ModuleWithoutLevel": {[]string{"--vmodule=request"}, "0", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
			LogFlags(fs)
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
				t.Error("level 8 is logged")
			}
		})
	}
}
