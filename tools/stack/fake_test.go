package stack

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain makes the test binary play the programs of the product when it is called by their names.
func TestMain(m *testing.M) {
	var err error
	switch {
	case filepath.Base(os.Args[0]) == "run":
		err = fakeRun(os.Args[1:])
	case filepath.Base(os.Args[0]) == "ks-apiserver":
		err = fakeServer(os.Args[1:])
	case len(os.Args) > 1 && os.Args[1] == "kube-apiserver":
		err = untilTerminated(nil)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fakeBin is a folder with the fake programs.
func fakeBin(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or each process of a test under the race detector ends a second late
	for _, name := range []string{"run", "ks-apiserver", "dev"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

func fakeRun(args []string) error {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	dir := f.String("dir", "", "")
	bin := f.String("bin", "", "")
	port := f.String("port", "", "")
	tlsPort := f.String("tls-port", "", "")
	kubeconfig := f.String("kubeconfig", "", "")
	fail := f.Bool("fail", false, "")
	hang := f.Bool("hang", false, "")
	deaf := f.Bool("deaf", false, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *fail {
		return errors.New("run: port 9090 is taken")
	}
	if *hang {
		fmt.Println("waiting for the cluster")
		return untilTerminated(nil)
	}
	if *deaf {
		requests := make(chan os.Signal, 1)
		signal.Notify(requests, syscall.SIGTERM)
		fmt.Println("READY http://127.0.0.1:1 https://127.0.0.1:2")
		for range requests {
			fmt.Println("a request to stop is not heeded")
		}
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return fmt.Errorf("not in the checkout: %w", err)
	}
	if err := os.WriteFile(filepath.Join(*dir, "admin-password"), []byte("Secret1pass\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*dir, "seen-kubeconfig"), []byte(*kubeconfig+os.Getenv("KUBECONFIG")), 0o600); err != nil {
		return err
	}
	kube := exec.Command(filepath.Join(*bin, "dev"), "kube-apiserver")
	server := exec.Command(filepath.Join(*bin, "ks-apiserver"), "--insecure-port="+*port, "--secure-port="+*tlsPort)
	server.Env = append(os.Environ(), "MARK=of the first")
	for _, c := range []*exec.Cmd{kube, server} {
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			return err
		}
	}
	defer func() {
		for _, c := range []*exec.Cmd{server, kube} {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
		}
	}()
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+*port)
		if err == nil {
			c.Close()
			break
		}
	}
	fmt.Println("log in as admin")
	return untilTerminated(func() { fmt.Printf("READY http://127.0.0.1:%s https://127.0.0.1:%s\n", *port, *tlsPort) })
}

// untilTerminated waits for SIGTERM, which is heeded before then is called.
func untilTerminated(then func()) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if then != nil {
		then()
	}
	<-stop
	return nil
}

func fakeServer(args []string) error {
	f := flag.NewFlagSet("ks-apiserver", flag.ContinueOnError)
	port := f.String("insecure-port", "", "")
	securePort := f.String("secure-port", "", "")
	failAtTheEnd := f.Bool("fail-at-the-end", false, "")
	refuse := f.Bool("refuse", false, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *refuse {
		return errors.New("no cluster")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/readyz", http.StatusFound) })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"method": r.Method, "uri": r.RequestURI, "authorization": r.Header.Get("Authorization"),
			"contentType": r.Header.Get("Content-Type"), "body": string(body),
			"mark": os.Getenv("MARK"), "securePort": *securePort,
		})
	})
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		ok := r.PostFormValue("client_id") == "kubesphere" && r.PostFormValue("client_secret") == "kubesphere"
		switch r.PostFormValue("grant_type") {
		case "password":
			ok = ok && r.PostFormValue("username") == "admin" && r.PostFormValue("password") == "Secret1pass"
		case "refresh_token":
			ok = ok && r.PostFormValue("refresh_token") == "r1"
		default:
			ok = false
		}
		if !ok {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"access_token":"a1","refresh_token":"r1","expires_in":7200}`)
	})
	err := untilTerminated(func() {
		go func() {
			err := http.ListenAndServe("127.0.0.1:"+*port, mux)
			fmt.Fprintln(os.Stderr, "ks-apiserver:", strings.TrimSpace(err.Error()))
			os.Exit(1)
		}()
	})
	if *failAtTheEnd {
		err = errors.New("found a race")
	}
	return err
}
