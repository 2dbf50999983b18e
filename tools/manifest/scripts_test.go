package manifest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..")

// script runs a script of bash in the repository's folder, with a kubectl that is another one.
func script(t *testing.T, kubectl, text string, env ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(file, []byte(kubectl), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", text)
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), "KUBECTL=bash "+file, "KUBECONFIG=/dev/null"), env...)
	out, _ := cmd.CombinedOutput() // what they do without a cluster is to fail
	return string(out)
}

// An overlay that names images of its own, also such as only differ by their tag, is said to do so.
func TestImagesThatCountForNothingAreNamed(t *testing.T) {
	const team = "registry.example.com/team/"
	for _, c := range []struct{ server, manager, want string }{
		{team + "ks-apiserver:v2", `"` + team + `ks-controller-manager:v2"`, ""},
		{team + "ks-apiserver:v1", team + "ks-controller-manager:v2", "another image of ks-apiserver"},
		{team + "ks-apiserver:v2", team + "ks-controller-manager:v21", "another image of ks-controller-manager"},
		{team + "ks-apiserver:v2", "other.example.com/ks-controller-manager:v2", "another image of ks-controller-manager"},
	} {
		objects := "        - image: " + c.server + "\n          name: a\n        - name: b\n          image: " + c.manager + "\n"
		got := script(t, `[[ $1 == kustomize && $# == 2 ]] && printf %s "$OBJECTS" || { echo "this kubectl is asked: $*" >&2; exit 1; }`, "hack/deploy.sh",
			"OBJECTS="+objects, "IMAGE_REGISTRY="+strings.TrimSuffix(team, "/"), "IMAGE_TAG=v2")
		if n := strings.Count(got, "count for nothing"); (c.want == "") != (n == 0) || n > 1 || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
		if !strings.Contains(got, "this kubectl is asked: kustomize") {
			t.Errorf("the installation uses another kubectl: %s", got)
		}
	}
}

// Where a webhook is not answered, the scripts say what to do, whichever of ours it is.
func TestWhatToDoAboutAWebhookThatIsNotAnsweredIsSaid(t *testing.T) {
	for webhook, want := range map[string]bool{"rights.kapis.dev": true, "guard-serviceaccounts.kapis.dev": true, "policy.example.com": false} {
		got := script(t, `echo 'failed calling webhook "`+webhook+`": no endpoints' >&2; exit 1`, "root=$PWD; . hack/lib.sh; quietly apply")
		if strings.Contains(got, "does not answer") != want || !strings.Contains(got, webhook) {
			t.Errorf("%s: %s", webhook, got)
		}
	}
}

// The answer to an exchange may be lost, and so may the first attempt to see what came of it: the selector is not forgotten then.
func TestAnExchangeThatWasDoneKeepsTheSelector(t *testing.T) {
	const kubectl = `
case " $* " in
*" patch "*) echo "$STATE" >"$0.selector"; exit 1 ;;
*" get service "*) echo read >>"$0.reads"; (($(wc -l <"$0.reads") != 2)) && cat "$0.selector" ;;
*" apply "*) cat >/dev/null ;;
*" annotate "*-" ") echo "the annotation is removed" >&2 ;;
esac`
	const text = `set -euo pipefail
read -r -a KUBECTL <<<"$KUBECTL"
address=192.0.2.1 namespace=n
echo '{"app":"x"}' >"${KUBECTL[1]}.selector"
eval "$(sed -n '/^fail() /p; /^note=/,/^moved=/p; /^selector_of() /p; /^select_pods() /,/^}/p; /^exchange() /,/^}/p' hack/local-debug.sh)"
exchange ks-apiserver ports`
	for state, want := range map[string]string{`{"kapis.dev/local-debug":"exchanged"}`: "exchanged: Service", `{"app":"y"}`: "was changed at the same time"} {
		got := script(t, kubectl, text, "STATE="+state)
		if !strings.Contains(got, want) || strings.Contains(got, "the annotation is removed") == strings.HasPrefix(want, "exchanged") {
			t.Errorf("%s: %s", state, got)
		}
	}
}

// Commands of the documents that deploy name images, as config/default and config/overlays/prod do not.
func TestDocumentedDeploymentsNameImages(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	command, seen := regexp.MustCompile("\\bmake (?:[a-z]+ )*deploy +[A-Z][^`\n]*"), 0
	own := regexp.MustCompile(`OVERLAY=(config/overlays/(node|dev)|that/folder)\b`) // these have images
	const previous = "make deploy KUBECONFIG=~/.kube/config"                        // alone on its line only where the images were named before: the way back
	for _, file := range append(documents, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range command.FindAllString(string(text), -1) {
			if seen++; !strings.Contains(found, "IMAGE_REGISTRY=") && !own.MatchString(found) && !strings.HasSuffix(found, previous) {
				t.Errorf("%s: %q is refused", file, found)
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d commands", seen)
	}
}
