package config

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// S3 is the section s3: the bucket that keeps the files of the application store. Without an endpoint they are in ConfigMaps.
type S3 struct {
	// Endpoint is the server: a host, with a port if it is another one than that of https or http, or a URL of those without a path.
	Endpoint string `json:"endpoint"`
	// Region is what requests are signed for; us-east-1.
	Region string `json:"region"`
	// DisableSSL talks http to a server whose Endpoint is no URL; false.
	DisableSSL *bool `json:"disableSSL"`
	// ForcePathStyle puts the bucket into the path of a URL, and false into the name of its host; true.
	ForcePathStyle bool   `json:"forcePathStyle"`
	AccessKeyID    string `json:"accessKeyID"`
	// SecretAccessKey, and SessionToken where the keys are temporary, are never sent: requests are signed with them.
	SecretAccessKey Secret `json:"secretAccessKey"`
	SessionToken    Secret `json:"sessionToken"`
	Bucket          string `json:"bucket"`
	// CertificateAuthority is a PEM file of the authorities of the server's certificate; those of this machine.
	CertificateAuthority string `json:"certificateAuthority"`
	// NewFiles keeps new files in the bucket; true. With false they go into ConfigMaps again, and those in the bucket are still read.
	NewFiles bool `json:"newFiles"`
}

// isBucket is what all S3 servers take as the name of a bucket.
var isBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`).MatchString

// Address returns the host and the port of the server, and whether it is reached by TLS; an empty host for no server.
func (s *S3) Address() (host string, tls bool) {
	plain := s.DisableSSL != nil && *s.DisableSSL
	if u, err := url.Parse(s.Endpoint); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return u.Host, u.Scheme == "https"
	}
	return s.Endpoint, !plain
}

func (s *S3) check(fault func(format string, args ...any)) {
	if s.Endpoint == "" {
		return
	}
	host, tls := s.Address()
	u, err := url.Parse("//" + host)
	whole, _ := url.Parse(s.Endpoint)
	more := whole != nil && whole.Host != "" && (whole.User != nil || strings.Trim(whole.Path, "/") != "" || whole.RawQuery != "")
	switch {
	case err != nil || u.Hostname() == "" || u.Host != host || more:
		fault("s3.endpoint: it is neither the host of a server, such as minio.example.com:9000, nor a URL of https or http with that alone")
	case tls && s.DisableSSL != nil && *s.DisableSSL:
		fault("s3.disableSSL: true, and s3.endpoint is a URL of https")
	}
	if !isBucket(s.Bucket) || net.ParseIP(s.Bucket) != nil {
		fault("s3.bucket: %.100q is no name of a bucket: 3 to 63 lower case letters, digits, - and .", s.Bucket)
	}
	if s.AccessKeyID == "" || s.SecretAccessKey == "" {
		fault("s3.accessKeyID and s3.secretAccessKey: both are needed")
	}
	if s.CertificateAuthority != "" {
		if _, err := os.Stat(s.CertificateAuthority); err != nil {
			fault("s3.certificateAuthority: there is no such file")
		}
	}
}
