package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/tools/redisserver"
)

func trusting(t *testing.T, file string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
}

// lives creates, changes, watches and ends sessions.
func lives(t *testing.T, writer, reader *Sessions) {
	t.Helper()
	k := newSink()
	follow(t, reader, k)
	waitFor(t, func() bool { return reader.Place() == Prefix })
	o := create(t, writer, "lives")
	o, err := writer.Update(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return k.version(o.Name) == o.ResourceVersion })
	later := newSink()
	follow(t, writer, later)
	waitFor(t, func() bool { return later.version(o.Name) == o.ResourceVersion }) // by its list
	if err := writer.Delete(t.Context(), o.Name, o.UID); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return k.deleted(o.Name) && later.deleted(o.Name) })
}

func TestConnectionsAreEncryptedAndVerified(t *testing.T) {
	files, foreign := redisserver.NewCertificates(t), redisserver.NewCertificates(t)
	s := redisserver.New(t, append(files.Options(), redisserver.UserOptions("ks", password)...)...)
	pair, err := tls.LoadX509KeyPair(files.ClientCert, files.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	client := func(c *tls.Config, user, pass string) *Sessions {
		return newClient(t, Options{Addresses: []string{s.Address}, Username: user, Password: pass, TLS: c})
	}
	good := trusting(t, files.CA)
	good.Certificates = []tls.Certificate{pair}
	lives(t, client(good, "ks", password), client(good, "ks", password))

	wrongName := good.Clone()
	wrongName.ServerName = "redis.example.com"
	wrongAuthority := trusting(t, foreign.CA)
	wrongAuthority.Certificates = good.Certificates
	for name, c := range map[string]struct {
		client *Sessions
		want   string
	}{
		"another authority":     {client(wrongAuthority, "ks", password), "certificate signed by unknown authority"},
		"another name":          {client(wrongName, "ks", password), "redis.example.com"},
		"no client certificate": {client(trusting(t, files.CA), "ks", password), ""},
		"no TLS":                {client(nil, "ks", password), ""},
		"another password":      {client(good, "ks", "canary"), "WRONGPASS"},
		"another user":          {client(good, "nobody", password), "WRONGPASS"},
		"no user":               {client(good, "", ""), "NOAUTH"},
	} {
		err := second(c.client.Get(t.Context(), Prefix+"a"))
		if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), password) ||
			strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Sessions survive when the master fails and a sentinel promotes its replica.
func TestSessionsOutliveTheMasterThatASentinelReplaces(t *testing.T) {
	t.Parallel()
	w := redisserver.NewWatched(t)
	client := func() *Sessions {
		return newClient(t, Options{Addresses: []string{w.Sentinel.Address}, Sentinel: &Sentinel{Master: w.Name}})
	}
	writer, reader := client(), client()
	lives(t, writer, reader)
	outlives(t, writer, client(), w.Follower, w.Master.Kill)
}

func TestSessionsOutliveAMasterOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redisserver.NewCluster(t)
	client := func() *Sessions {
		return newClient(t, Options{Addresses: []string{nodes[0].Address, nodes[1].Address, nodes[5].Address}, Cluster: true})
	}
	writer, reader := client(), client()
	lives(t, writer, reader)
	master, follower := redisserver.Holders(t, nodes, "{kapis}:sessions:changes")
	outlives(t, writer, client(), follower, master.Kill)
}

// outlives kills the server that has the sessions, and waits until they are available at its replica.
func outlives(t *testing.T, writer, reader *Sessions, follower *redisserver.Server, kill func()) {
	t.Helper()
	k := newSink()
	follow(t, reader, k)
	waitFor(t, func() bool { return reader.Place() == Prefix })
	stays := create(t, writer, "stays")
	waitFor(t, func() bool { return k.version(stays.Name) != "" })
	follower.AwaitReplica()
	kill()
	waitFor(t, func() bool { return reader.Place() == "" }) // meanwhile logins use the other backend
	waitFor(t, func() bool { return follower.Role() == "master" })
	waitFor(t, func() bool { return reader.Place() == Prefix && reader.Fault() == nil })
	got, err := reader.Get(t.Context(), stays.Name)
	if err != nil {
		t.Fatal(err)
	}
	if k.deleted(stays.Name) {
		t.Error("forgotten")
	}
	var next error
	waitFor(t, func() bool {
		got, next = reader.Update(t.Context(), got)
		if next != nil && !errors.Is(next, t.Context().Err()) {
			got, _ = reader.Get(t.Context(), stays.Name)
		}
		return next == nil
	})
	waitFor(t, func() bool { return k.version(stays.Name) == got.ResourceVersion })
	waitFor(t, func() bool {
		err := writer.Delete(t.Context(), stays.Name, "")
		return err == nil || apierrors.IsNotFound(err)
	})
	waitFor(t, func() bool { return k.deleted(stays.Name) })
}
