// The page of the console: a SystemJS module, written by hand so that nothing has to be built. It uses the React of the console, and exports what
// the console adds: routes, entries of menus, texts. The console loads it from /pstatic/dist/greeter/index.js.
System.register(['react'], function (register) {
  'use strict';
  var React;
  var api = '/kapis/greeter.example.com/v1/greetings';

  // Requests are made as the user, by the console's session; what the user may not do is answered with 403.
  function ask(method, body) {
    return fetch(api, {
      method: method,
      headers: { Accept: 'application/json', 'Content-Type': 'application/json' },
      body: body && JSON.stringify(body),
    }).then(function (answer) {
      return answer.json().then(function (value) {
        if (!answer.ok) throw new Error(value.message || String(answer.status));
        return value;
      });
    });
  }

  function Page() {
    var e = React.createElement;
    var greetings = React.useState([]);
    var text = React.useState('');
    var problem = React.useState('');
    function load() {
      return ask('GET').then(function (list) {
        greetings[1](list.items);
        problem[1]('');
      });
    }
    function tell(error) {
      problem[1](error.message);
    }
    React.useEffect(function () {
      load().catch(tell);
    }, []);
    function leave(event) {
      event.preventDefault();
      ask('POST', { text: text[0] })
        .then(function () {
          text[1]('');
          return load();
        })
        .catch(tell);
    }
    return e('div', { style: { padding: 24 } },
      e('h2', null, t('GREETER_TITLE')),
      problem[0] && e('p', { role: 'alert' }, problem[0]),
      e('ul', null, greetings[0].map(function (greeting) {
        return e('li', { key: greeting.id }, greeting.author + ': ' + greeting.text);
      })),
      e('form', { onSubmit: leave },
        e('input', { value: text[0], 'aria-label': t('GREETER_TEXT'), onChange: function (event) { text[1](event.target.value); } }),
        e('button', { type: 'submit' }, t('GREETER_LEAVE'))));
  }

  return {
    setters: [function (module) { React = module.default || module; }],
    execute: function () {
      register('default', {
        routes: [{ path: '/greeter', element: React.createElement(Page) }],
        menus: [{ parent: 'topbar', name: 'greeter', title: 'GREETER', icon: 'message', order: 100, authKey: 'greeter', skipAuth: false }],
        locales: {
          en: { 'GREETER': 'Greeter', 'GREETER_TITLE': 'Greetings', 'GREETER_TEXT': 'Text', 'GREETER_LEAVE': 'Leave a greeting' },
          zh: { 'GREETER': 'Greeter（示例）', 'GREETER_TITLE': '问候', 'GREETER_TEXT': '内容', 'GREETER_LEAVE': '留下问候' },
        },
      });
    },
  };
});
