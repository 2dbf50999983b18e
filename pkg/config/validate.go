package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// isLoopback reports whether a host of a URL is this machine: localhost (RFC 6761, 6.3), or a loopback address.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}

// Validate returns all errors of c in one line.
func (c *Config) Validate() error {
	var wrong []string
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }

	iss := c.Authentication.Issuer
	u, err := url.Parse(iss.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		fault("authentication.issuer.url: %q is not an http or https URL without query and fragment", iss.URL)
	case u.Scheme == "http" && !isLoopback(u.Hostname()) && !iss.AllowInsecureURL:
		fault("authentication.issuer.url: %q is http, so tokens and passwords would cross the network in the clear; make it the https"+
			" address that browsers"+
			" reach this server at, or accept that by authentication.issuer.allowInsecureURL: true"+
			" (KUBESPHERE_AUTHENTICATION_ISSUER_ALLOWINSECUREURL=true)", iss.URL)
	}
	notNegative := func(name string, d Duration) {
		if d < 0 {
			fault("%s: %v is negative", name, time.Duration(d))
		}
	}
	notNegative("authentication.issuer.accessTokenMaxAge", iss.AccessTokenMaxAge)
	notNegative("authentication.issuer.accessTokenInactivityTimeout", iss.AccessTokenInactivityTimeout)
	notNegative("authentication.issuer.maximumClockSkew", iss.MaximumClockSkew)
	if iss.MaximumClockSkew > Duration(5*time.Minute) {
		fault("authentication.issuer.maximumClockSkew: %v lets tokens live on for too long; at most 5m", time.Duration(iss.MaximumClockSkew))
	}
	if age := iss.AuthorizationCodeMaxAge; age < Duration(time.Second) || age > Duration(10*time.Minute) {
		fault("authentication.issuer.authorizationCodeMaxAge: %v is not between 1s and 10m (RFC 6749, 4.1.2)", time.Duration(age))
	}
	iss.checkKeys(fault)
	c.Cache.check(fault)
	c.Authentication.validateAccounts(fault)
	for i, cl := range c.Authentication.Clients {
		if cl.Name == "" {
			fault("authentication.clients[%d].name is missing", i)
		}
		if g := cl.GrantMethod; g != "" && g != "auto" && g != "prompt" && g != "deny" {
			fault("authentication.clients[%d].grantMethod: %q is not auto, prompt or deny", i, g)
		}
	}
	c.Authorization.validate(fault)
	c.GPU.validate(fault)
	c.Resources.validate(fault)
	c.Experimental.validate(fault)
	c.Auditing.validate(c.Ignored, fault)
	switch c.Multicluster.ClusterRole {
	case "host", "member", "none":
	default:
		fault("multicluster.clusterRole: %q is not host, member or none", c.Multicluster.ClusterRole)
	}
	if msgs := validation.IsDNS1123Label(c.Multicluster.HostClusterName); len(msgs) > 0 {
		fault("multicluster.hostClusterName: %q: %s", c.Multicluster.HostClusterName, msgs[0])
	}
	c.Kubeconfig.check(c.Authentication.Issuer.URL, fault)
	c.Terminal.check(fault)
	c.Fleet.check(c.Multicluster.ClusterRole, c.Multicluster.HostClusterName, fault)
	c.Gateway.check(fault)
	c.HelmExecutor.check(fault)
	c.Extension.check(fault)
	c.S3.check(fault)
	if c.Kubernetes.QPS < 0 || c.Kubernetes.Burst < 0 {
		fault("kubernetes.qps and kubernetes.burst must not be negative")
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}
