// Package logins tests the pages of the authorization server in a real browser, Debian's chromium. It is a module of its own,
// so that the product does not depend on what drives the browser.
package logins
