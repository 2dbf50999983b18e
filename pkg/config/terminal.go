package config

import (
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/labels"
)

// Terminal is the section terminal: shells and files in containers, shells on nodes, and kubectl shells (docs/terminal.md).
type Terminal struct {
	// IdleTimeout is how long nothing may be typed until a terminal is closed; 30m. 0 means as long as the client likes.
	IdleTimeout Duration `json:"idleTimeout"`
	// MaxDuration is how long a terminal may last; 8h. 0 means as long as the client likes.
	MaxDuration Duration `json:"maxDuration"`
	// Files says whether files are written to and read from containers; true.
	Files bool `json:"files"`
	// UploadFileLimit is how many bytes the files of one upload may have; 100Mi.
	UploadFileLimit Bytes `json:"uploadFileLimit"`
	// AllowedOrigins are the origins of the pages that may open terminals and transfer files, as in https://console.example;
	// empty for all but those that a browser calls cross-site.
	AllowedOrigins []string `json:"allowedOrigins,omitempty"`
	// DebugImages are the images of containers that may be added to a pod whose own have no shell; none.
	DebugImages []string `json:"debugImages,omitempty"`
	// Node is the shells on nodes.
	Node TerminalNode `json:"node"`
	// Kubectl is the kubectl shells.
	Kubectl TerminalKubectl `json:"kubectl"`
	// Recording is what is recorded of shells.
	Recording TerminalRecording `json:"recording"`

	Image   any `json:"image" config:"unread"`
	Timeout any `json:"timeout" config:"unread"`
}

// TerminalKubectl is the section terminal.kubectl.
type TerminalKubectl struct {
	// Image is the image of the pods that kubectl shells run in; none, and so no shells.
	Image string `json:"image"`
	// Timeout is how long such a pod may take to run; 2m. A number counts seconds.
	Timeout Seconds `json:"timeout"`
}

// TerminalNode is the section terminal.node.
type TerminalNode struct {
	// Image is the image of the pods that shells on nodes run in; none, and so no shells.
	Image string `json:"image"`
	// Timeout is how long such a pod may take to run; 10m. A number counts seconds, as KubeSphere 4 has it.
	Timeout Seconds `json:"timeout"`
	// Selector is a label selector of the nodes that may have shells; all nodes.
	Selector string `json:"selector"`
	// Profile is what a shell may do: sysadmin, which is root on the node, netadmin or general; sysadmin.
	Profile string `json:"profile"`
}

// maxUploadFileLimit is more than a replica can store of ten uploads at once.
const maxUploadFileLimit Bytes = 1 << 40

func (t Terminal) check(fault func(format string, args ...any)) {
	t.Node.check(fault)
	checkShellPod("kubectl", t.Kubectl.Image, t.Kubectl.Timeout, fault)
	t.Recording.check(fault)
	for name, d := range map[string]Duration{"idleTimeout": t.IdleTimeout, "maxDuration": t.MaxDuration} {
		if d < 0 || d > 0 && d < Duration(time.Second) {
			fault("terminal.%s: %v is neither 0 nor at least 1s", name, time.Duration(d))
		}
	}
	if t.UploadFileLimit < 1 || t.UploadFileLimit > maxUploadFileLimit {
		fault("terminal.uploadFileLimit: %d is not from 1 to %d bytes: files: false switches uploads off", t.UploadFileLimit, maxUploadFileLimit)
	}
	for n, image := range t.DebugImages {
		if image == "" || strings.ContainsFunc(image, unicode.IsSpace) {
			fault("terminal.debugImages[%d]: %q is not the name of an image", n, image)
		}
	}
	for _, o := range t.AllowedOrigins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || o != u.Scheme+"://"+u.Host {
			fault("terminal.allowedOrigins: %q is not an origin such as https://console.example (RFC 6454, 6.2)", o)
		}
	}
}

// checkShellPod checks the keys that both sections of pods have.
func checkShellPod(section, image string, timeout Seconds, fault func(format string, args ...any)) {
	if strings.ContainsFunc(image, unicode.IsSpace) {
		fault("terminal.%s.image: %q is not the name of an image", section, image)
	}
	if d := time.Duration(timeout); d < time.Second || d > 24*time.Hour {
		fault("terminal.%s.timeout: %v is not from 1s to 24h", section, d)
	}
}

func (n TerminalNode) check(fault func(format string, args ...any)) {
	checkShellPod("node", n.Image, n.Timeout, fault)
	if _, err := labels.Parse(n.Selector); err != nil {
		fault("terminal.node.selector: %q is not a label selector such as node-role.kubernetes.io/worker,zone in (a,b): %v", n.Selector, err)
	}
	if !slices.Contains([]string{"sysadmin", "netadmin", "general"}, n.Profile) {
		fault("terminal.node.profile: %q is not sysadmin, netadmin or general", n.Profile)
	}
}
