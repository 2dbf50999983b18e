package plane

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	for claim, tc := range map[string]struct {
		told, shown, err string
	}{
		"ReadyEndsIt":         {"a\nCONTROL PLANE READY https://x\nlater\n", "a\nCONTROL PLANE READY https://x\n", ""},
		"AFailureIsTheError":  {"a\nFAILED no:\tlast line\n", "a\n", "no:\nlast line"},
		"AnEndIsAnErrorToo":   {"a\n", "a\n", "ended before it was ready"},
		"SilenceIsAnErrorToo": {"", "", "ended before it was ready"},
	} {
		t.Run(claim, func(t *testing.T) {
			var out bytes.Buffer
			err := follow(strings.NewReader(tc.told), &out)
			if out.String() != tc.shown || (err != nil) != (tc.err != "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("showed %q, %v", out.String(), err)
			}
		})
	}
}

func TestProgressReachesStarterAndLog(t *testing.T) {
	for claim, tc := range map[string]struct {
		tell func(*progressWriter)
		want string
	}{
		"UpToReady": {func(w *progressWriter) {
			_, _ = io.WriteString(w, readyLine+" x\n")
			_, _ = io.WriteString(w, "later\n")
		}, "first\n" + readyLine + " x\n"},
		"UpToFailure": {func(w *progressWriter) { w.failed(errors.New("a\nb")) }, "first\nFAILED a\tb\n"},
	} {
		t.Run(claim, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			var log bytes.Buffer
			w := &progressWriter{log: &log, starter: write}
			_, _ = io.WriteString(w, "first\n")
			tc.tell(w)
			got, err := io.ReadAll(read) // ends, as the writer is closed
			if err != nil || string(got) != tc.want {
				t.Errorf("the starter was told %q, %v", got, err)
			}
			if !strings.HasPrefix(log.String(), "first\n") {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}
