// Passkeys need the browser's WebAuthn interface; everything else works without a script.
"use strict";
(() => {
  const bytes = (s) => Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const text = (b) => btoa(String.fromCharCode(...new Uint8Array(b))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const decoded = (list) => (list || []).map((c) => ({ ...c, id: bytes(c.id) }));

  const options = (form) => {
    const o = JSON.parse(form.dataset.options).publicKey;
    o.challenge = bytes(o.challenge);
    if (o.user) o.user.id = bytes(o.user.id);
    if (o.excludeCredentials) o.excludeCredentials = decoded(o.excludeCredentials);
    if (o.allowCredentials) o.allowCredentials = decoded(o.allowCredentials);
    return { publicKey: o };
  };

  const answer = (c) => {
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (c.response[name]) response[name] = text(c.response[name]);
    }
    if (c.response.getTransports) response.transports = c.response.getTransports();
    return JSON.stringify({
      id: c.id, rawId: text(c.rawId), type: c.type, response,
      authenticatorAttachment: c.authenticatorAttachment || undefined,
      clientExtensionResults: c.getClientExtensionResults(),
    });
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    if (!window.PublicKeyCredential) continue;
    form.hidden = false;
    const alert = form.querySelector("[role=alert]");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      button.disabled = true;
      alert.textContent = "";
      try {
        const c = await navigator.credentials[form.dataset.passkey](options(form));
        form.elements.response.value = answer(c);
        form.submit();
      } catch {
        alert.textContent = form.dataset.failed;
        button.disabled = false;
        button.focus();
      }
    });
  }
})();
