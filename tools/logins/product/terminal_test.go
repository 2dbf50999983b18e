package product

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
	"kapis.dev/ks-apiserver/tools/stack"
)

// terminalPage is a page that speaks as the console's terminal does: text frames, or, with the sub-protocol v5.channel.k8s.io, binary ones. Its
// openShell(path, protocols) returns when the first message has arrived; each shell has what was shown as bytes.
const terminalPage = `
window.openShell = (path, protocols) => new Promise((done, failed) => {
	const ws = new WebSocket(location.origin.replace("http", "ws") + path, protocols)
	ws.binaryType = "arraybuffer"
	const utf8 = new TextEncoder(), channels = protocols.includes("v5.channel.k8s.io")
	const shell = {bytes: new Uint8Array(1 << 25), length: 0, status: "", code: 0, protocol: () => ws.protocol}
	const show = data => { shell.bytes.set(data, shell.length); shell.length += data.length }
	ws.onmessage = m => {
		if (!channels) {
			show(utf8.encode(JSON.parse(m.data).Data))
		} else {
			const message = new Uint8Array(m.data)
			if (message[0] === 1) show(message.subarray(1))
			if (message[0] === 3) shell.status = new TextDecoder().decode(message.subarray(1))
		}
		done(shell)
	}
	ws.onclose = e => { shell.code = e.code; failed(new Error("closed with " + e.code + " " + e.reason)) }
	const message = (channel, data) => { const out = new Uint8Array(data.length + 1); out[0] = channel; out.set(data, 1); ws.send(out) }
	shell.type = text => {
		for (let at = 0; at < text.length; at += 8192) { // cut anywhere, between the halves of a character too
			if (channels) continue
			ws.send(JSON.stringify({Op: "stdin", Data: text.slice(at, at + 8192)}))
		}
		if (channels) {
			const all = utf8.encode(text)
			for (let at = 0; at < all.length; at += 8192) message(0, all.subarray(at, at + 8192))
		}
	}
	shell.resize = (cols, rows) => channels ? message(4, utf8.encode(JSON.stringify({Width: cols, Height: rows}))) :
		ws.send(JSON.stringify({Op: "resize", Cols: cols, Rows: rows}))
	shell.text = () => new TextDecoder().decode(shell.bytes.subarray(0, shell.length))
	shell.sha256 = async (from, to) => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", shell.bytes.slice(from, to))),
		b => b.toString(16).padStart(2, "0")).join("")
})
true`

// O3: a page in a browser types and is shown every byte, by the console's frames with its cookie, and by the sub-protocol of Kubernetes with
// a token in another.
func TestAPageHasATerminal(t *testing.T) {
	pod := shellPod(t)
	path := "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/default/pods/" + pod + "/exec?shell=sh"
	b := chromium.Open(t, chromium.Desktop(), browsing, certificate(t))
	b.Visit(product.issuer + "/version")
	chromium.Eval[bool](b, `document.cookie = "token=`+product.admin+`; path=/; secure"; true`)
	chromium.Eval[bool](b, terminalPage)
	const bearer = `"base64url.bearer.authorization.k8s.io." + btoa(TOKEN).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")`
	for name, protocols := range map[string]string{
		"frames": `[]`, "channels": `["v5.channel.k8s.io", ` + strings.Replace(bearer, "TOKEN", `"`+product.admin+`"`, 1) + `]`,
		"named frames": `["frames.terminal.kapis.dev", ` + strings.Replace(bearer, "TOKEN", `"`+product.admin+`"`, 1) + `]`,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "frames" { // the token alone
				chromium.Eval[bool](b, `document.cookie = "token=; path=/; secure; max-age=0"; true`)
			} else {
				chromium.Eval[bool](b, `document.cookie = "token=`+product.admin+`; path=/; secure"; true`)
			}
			chromium.Eval[bool](b, `window.shell = undefined; openShell("`+path+`", `+protocols+`).then(s => window.shell = s, e => window.failed = e); true`)
			b.Until(`window.shell !== undefined`)
			typeIn(t, b, "exec sh -c 'while read -r line; do eval \"$line\"; done'\n") // a shell that edits lines shows them
			typeIn(t, b, "stty -echo; echo re''ady\n")
			b.Until(`shell.text().includes("ready")`)
			chromium.Eval[bool](b, `shell.resize(151, 55); true`)
			typeIn(t, b, "until stty size | grep '55 151'; do :; done\n")
			b.Until(`shell.text().includes("55 151")`)

			var paste strings.Builder // 1 MB, with characters of each length
			for i := 0; paste.Len() < 1<<20; i++ {
				fmt.Fprintf(&paste, "%c%c%c%d\n", 0xa0+i%0x700, 0x4e00+i%0x1000, 0x1f600+i%80, i)
			}
			typeIn(t, b, fmt.Sprintf("stty raw; echo co''unts; head -c %d | sha256sum; echo pa''sted\n", paste.Len()))
			b.Until(`shell.text().includes("counts")`)
			typeIn(t, b, paste.String())
			b.Until(`shell.text().includes("pasted")`)
			if sum := digest(paste.String()); !strings.Contains(chromium.Eval[string](b, `shell.text()`), sum) {
				t.Errorf("of %d bytes that were pasted others arrived: %.300s", paste.Len(), chromium.Eval[string](b, `shell.text().slice(-300)`))
			}

			var want strings.Builder // 7 MB
			for i := 1; i <= 1_000_000; i++ {
				fmt.Fprintln(&want, i)
			}
			chromium.Eval[bool](b, `window.from = shell.length; true`)
			typeIn(t, b, "seq 1 1000000; printf 'a\\303\\244\\360\\237\\230\\200e'; echo n''d; exit 3\n")
			b.Until(`shell.code !== 0`)
			end := "aä\U0001F600end\n"
			chromium.Eval[bool](b, `window.sum = ""; shell.sha256(from, shell.length).then(sum => window.sum = sum); true`)
			b.Until(`window.sum !== ""`)
			if chromium.Eval[string](b, `sum`) != digest(want.String()+end) {
				t.Errorf("of %d bytes of output %d are shown, or others: they end with %q", want.Len()+len(end),
					chromium.Eval[int](b, `shell.length - from`), chromium.Eval[string](b, `shell.text().slice(-40)`))
			}
			if code := chromium.Eval[int](b, `shell.code`); code != 1000 {
				t.Errorf("it ends with %d", code)
			}
			if status := chromium.Eval[string](b, `shell.status`); name == "channels" && !strings.Contains(status, `"message":"3"`) {
				t.Errorf("the status of the end is %s", status)
			}
		})
	}
	chromium.Eval[bool](b, `window.failed = undefined; openShell("`+path+`", ["v5.channel.k8s.io", "base64url.bearer.authorization.k8s.io.bm8"]).catch(e => window.failed = e); true`)
	b.Until(`window.failed !== undefined`)
}

// O10: a page has a shell on a node: it is in the node's namespaces, and not in those of its pod.
func TestAPageHasAShellOnARealNode(t *testing.T) {
	if !*realNode {
		t.Skip("DID NOT RUN: without -real-node there is no node to be in")
	}
	b := chromium.Open(t, chromium.Desktop(), browsing, certificate(t))
	b.Visit(product.issuer + "/version")
	chromium.Eval[bool](b, `document.cookie = "token=`+product.admin+`; path=/; secure"; true`)
	chromium.Eval[bool](b, terminalPage)
	const path = "/kapis/terminal.kubesphere.io/v1alpha2/nodes/real-0/exec?shell=sh"
	chromium.Eval[bool](b, `openShell("`+path+`", []).then(s => window.shell = s, e => window.failed = e); true`)
	b.Until(`window.shell !== undefined`)
	chromium.Eval[bool](b, `shell.resize(120, 40); true`)
	typeIn(t, b, "echo on-$(hostname)-as-$(id -u); exit 4\n")
	b.Until(`shell.code !== 0`)
	if text := chromium.Eval[string](b, `shell.text()`); !strings.Contains(text, "on-real-0-as-0") {
		t.Errorf("the shell shows %q", text)
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func typeIn(t *testing.T, b *chromium.Browser, text string) {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	chromium.Eval[bool](b, `shell.type(`+string(raw)+`); true`)
}

// shellPod makes a pod in the namespace default, and returns its name when it runs.
func shellPod(t *testing.T) string {
	t.Helper()
	const name, pods = "browsed", "/api/v1/namespaces/default/pods"
	spec := map[string]any{"containers": []any{map[string]any{"name": "shell", "image": "example/shell"}}}
	if *realNode {
		spec["containers"] = []any{map[string]any{"name": "shell", "image": realImage, "command": []any{"sleep", "2147483647"}}}
		spec["nodeSelector"] = map[string]any{"kubernetes.io/hostname": "real-0"}
		spec["tolerations"] = []any{map[string]any{"key": "kapis.dev/real", "operator": "Exists"}}
	}
	shows := func(path, want string) func() error {
		return func() error {
			resp, err := product.Do(t.Context(), stack.Request{Path: path, Token: product.admin})
			if err == nil && (resp.Status != http.StatusOK || !strings.Contains(string(resp.Body), want)) {
				err = fmt.Errorf("%d %s", resp.Status, resp.Body)
			}
			return err
		}
	}
	await(t, "the ServiceAccount that pods get", shows("/api/v1/namespaces/default/serviceaccounts/default", "")) // without it they are refused
	create(t, pods, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name}, "spec": spec})
	await(t, "the pod runs", shows(pods+"/"+name, `"phase":"Running"`))
	return name
}
