package account

import (
	"strings"
	"testing"
)

func TestDeviceNames(t *testing.T) {
	for agent, want := range map[string]string{
		"": "", "kubectl/v1.37.1 (linux/amd64)": "kubectl/v1.37.1", strings.Repeat("x", 300): strings.Repeat("x", 64),
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36 Edg/156.0":         "Edge, Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1 (KHTML, like Gecko) Version/19.0 Mobile Safari/604.1": "Safari, iPhone",
		"Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Mobile Safari/537.36":                      "Chrome, Android",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:140.0) Gecko/20100101 Firefox/140.0":                                          "Firefox, macOS",
	} {
		if got := deviceName(agent); got != want {
			t.Errorf("deviceName(%q) = %q, want %q", agent, got, want)
		}
	}
}

func FuzzDeviceName(f *testing.F) {
	f.Add("Mozilla/5.0 (X11; Linux x86_64) Firefox/1")
	f.Add(strings.Repeat("é", 100))
	f.Fuzz(func(t *testing.T, s string) {
		if n := deviceName(s); len(n) > 64 {
			t.Errorf("%d bytes", len(n))
		}
	})
}
