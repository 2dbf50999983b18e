package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/tools/stack"
)

// What all tests of the package share.
var (
	product *stack.Stack
	// issuer is the address that people and clients know the server by: https://localhost:PORT.
	issuer string
	// wire sends every request of the tests; it trusts the product's authority.
	wire *http.Transport
	// kube and objects are for kube-apiserver itself, as its administrator.
	kube    kubernetes.Interface
	objects dynamic.Interface
)

// productRace builds the product with the race detector, as `make test` does; -product-race=false saves the time of it while a test is written.
var productRace = flag.Bool("product-race", true, "build the product with the race detector")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ks-identity-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := start(dir); err != nil {
		fmt.Fprintln(os.Stderr, "start the product:", err)
		return 1
	}
	code := m.Run()
	if err := product.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the product:", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "the logs are kept in", filepath.Join(dir, "dev", "log"))
		return code
	}
	_ = os.RemoveAll(dir)
	if chosen("test.run") || chosen("test.skip") { // not all rules were asked for
		return 0
	}
	if err := checkTable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func chosen(name string) bool { return flag.Lookup(name).Value.String() != "" }

func start(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	repo, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	bin, err := stack.Build(ctx, repo, *productRace)
	if err != nil {
		return err
	}
	if product, err = stack.Start(ctx, stack.Options{Bin: bin, Dir: filepath.Join(dir, "dev"), Repo: repo, Log: os.Stderr}); err != nil {
		return err
	}
	issuer = strings.Replace(product.TLSURL, "127.0.0.1", "localhost", 1)
	if err = connect(); err == nil {
		err = furnish(ctx)
	}
	if err != nil {
		_ = product.Stop() // how it ends matters no more
	}
	return err
}

func connect() error {
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(filepath.Join(product.Dir, "tls-ca.crt"))
	if err != nil {
		return err
	}
	if !roots.AppendCertsFromPEM(authority) {
		return fmt.Errorf("tls-ca.crt has no certificate")
	}
	// A connection is given up long before the server does (3 minutes): a POST on one that ends at that moment fails, and is not sent again.
	wire = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 64,
		IdleConnTimeout: time.Minute}
	cfg, err := product.RESTConfig()
	if err != nil {
		return err
	}
	if objects, err = dynamic.NewForConfig(cfg); err != nil {
		return err
	}
	kube, err = kubernetes.NewForConfig(cfg)
	return err
}
