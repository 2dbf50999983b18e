package config_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestTerminalsAreLimitedInTime(t *testing.T) {
	c, err := config.Parse([]byte("terminal: {idleTimeout: 90s, maxDuration: 0, allowedOrigins: ['https://console.example:30880'], kubectl: {image: x, timeout: 60}, files: false, uploadFileLimit: 5Mi}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Terminal; time.Duration(got.IdleTimeout) != 90*time.Second || got.MaxDuration != 0 || len(got.AllowedOrigins) != 1 ||
		got.Files || got.UploadFileLimit != 5<<20 || got.Kubectl != (config.TerminalKubectl{Image: "x", Timeout: config.Seconds(time.Minute)}) {
		t.Errorf("%+v", got)
	}
	if d := config.Default().Terminal; time.Duration(d.IdleTimeout) != 30*time.Minute || time.Duration(d.MaxDuration) != 8*time.Hour || !d.Files ||
		d.UploadFileLimit != 100<<20 || d.Kubectl != (config.TerminalKubectl{Timeout: config.Seconds(2 * time.Minute)}) {
		t.Errorf("%+v", d)
	}
	for text, want := range map[string]string{
		"idleTimeout: -1s":                                 "terminal.idleTimeout: -1s",
		"maxDuration: 10ms":                                "terminal.maxDuration: 10ms",
		"idleTimeout: 30":                                  "30 is not a duration",
		"debugImages: [tools, '']":                         `terminal.debugImages[1]: "" is not`,
		"debugImages: ['tools:1 --privileged']":            "terminal.debugImages[0]",
		"allowedOrigins: [console.example]":                `"console.example" is not an origin`,
		"allowedOrigins: ['https://console.example/']":     `"https://console.example/" is not an origin`,
		"allowedOrigins: ['*']":                            `"*" is not an origin`,
		"allowedOrigins: ['https://user@console.example']": "is not an origin",
		"uploadFileLimit: 0":                               "terminal.uploadFileLimit: 0",
		"uploadFileLimit: 2Ti":                             "terminal.uploadFileLimit: 2199023255552",
		"uploadFileLimit: 100 MB":                          "is not an amount of memory",
		"files: maybe":                                     "files",
		"idleTimeouts: 30m":                                "idleTimeout",
		"node: {image: 'alpine 3'}":                        `terminal.node.image: "alpine 3"`,
		"node: {timeout: 0}":                               "terminal.node.timeout: 0s",
		"node: {timeout: 25h}":                             "terminal.node.timeout: 25h0m0s",
		"node: {timeout: 99999999999}":                     "99999999999 is not a duration",
		"node: {timeout: soon}":                            `"soon" is not a duration`,
		"node: {selector: 'a in b'}":                       `terminal.node.selector: "a in b"`,
		"node: {profile: root}":                            `terminal.node.profile: "root"`,
		"node: {profiles: general}":                        "terminal.node.profile",
		"kubectl: {image: 'k 8'}":                          `terminal.kubectl.image: "k 8"`,
		"kubectl: {timeout: 25h}":                          "terminal.kubectl.timeout: 25h0m0s",
		"kubectl: {server: x}":                             "terminal.kubectl.server",
		"node: alpine":                                     "terminal.node is a section",
	} {
		if _, err := config.Parse([]byte("terminal: {"+text+"}"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// O10. The keys of an existing installation count as they are.
func TestShellsOnNodesAreOffUnlessTheyHaveAnImage(t *testing.T) {
	for text, want := range map[string]config.TerminalNode{
		"": {Timeout: config.Seconds(10 * time.Minute), Profile: "sysadmin"},
		"terminal: {node: {image: 'alpine:3.15', timeout: 600}}": {Image: "alpine:3.15", Timeout: config.Seconds(10 * time.Minute),
			Profile: "sysadmin"},
		"terminal: {node: {image: a, timeout: 90s, selector: 'zone in (a,b),!gpu', profile: general}}": {Image: "a",
			Timeout: config.Seconds(90 * time.Second), Selector: "zone in (a,b),!gpu", Profile: "general"},
	} {
		c, err := config.Parse([]byte(text), nil)
		if err != nil || c.Terminal.Node != want || len(c.Ignored) > 0 {
			t.Errorf("%s: %+v, %v, %v", text, c.Terminal.Node, c.Ignored, err)
		}
	}
	c, err := config.Parse(nil, []string{"KUBESPHERE_TERMINAL_NODE_IMAGE=alpine:3.15", "KUBESPHERE_TERMINAL_NODE_TIMEOUT=30"})
	if err != nil || c.Terminal.Node.Image != "alpine:3.15" || time.Duration(c.Terminal.Node.Timeout) != 30*time.Second {
		t.Errorf("by variables: %+v, %v", c, err)
	}
}
