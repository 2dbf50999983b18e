package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// hasBrowser reports whether a user sits at this machine with a browser.
func hasBrowser(env func(string) string) bool {
	switch {
	case env("BROWSER") != "":
		return true
	case env("SSH_CONNECTION") != "": // the browser would open elsewhere
		return false
	case runtime.GOOS == "darwin" || runtime.GOOS == "windows":
		return true
	}
	_, err := exec.LookPath("xdg-open")
	return err == nil && (env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != "")
}

// openBrowser opens a URL in the browser of $BROWSER, a program's name, or that of the desktop.
func openBrowser(_ context.Context, address string) error {
	name, args := "xdg-open", []string{address}
	switch own := os.Getenv("BROWSER"); {
	case own != "":
		name = own
	case runtime.GOOS == "darwin":
		name = "open"
	case runtime.GOOS == "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	// Its output is dropped, since standard output is kubectl's. It outlives this program.
	cmd := exec.Command(name, args...) //nolint:noctx // see above
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
