// Calls of the agent's API, by the Connect protocol with JSON.

// Both are found from where the page is, which agentctl ui puts below a random name.
const service = new URL('../plumb.api.v1.Agent/', location.href).href;
const parser = new URL('parse', location.href).href;

// session is what agentctl ui lets this page in by. It comes behind the # of the address, from where
// it is removed, and is kept for this tab so that the page can be loaded again. The agent's own
// /ui/ has none. It goes only to where the page came from, in a header that no browser adds by
// itself: cookies would go to all ports of the host.
const session = (() => {
  const kept = 'plumb-session ' + location.pathname;
  const given = new URLSearchParams(location.hash.slice(1)).get('session');
  try {
    if (given) {
      sessionStorage.setItem(kept, given);
    }
    return given || sessionStorage.getItem(kept);
  } catch { // a browser that keeps nothing
    return given;
  } finally {
    if (given) {
      history.replaceState(null, '', location.pathname);
    }
  }
})();

const headers = (more) => (session ? { ...more, 'Plumb-Session': session } : more);

// Refusal is what the agent answered; code is that of Connect, such as permission_denied.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function answer(response) {
  let body = {};
  try {
    body = await response.json();
  } catch (err) {
    if (response.ok) { // what is good is always JSON, if it came as a whole
      throw new Error(`the answer was cut short (${err.message})`);
    }
  }
  if (!response.ok) {
    throw new Refusal(body.code || response.status, body.message || response.statusText);
  }
  return body;
}

export async function call(method, request = {}, signal) {
  return answer(await fetch(service + method, {
    method: 'POST', signal, headers: headers({ 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1' }),
    body: JSON.stringify(request),
  }));
}

// parse has the agent read an intent file, as agentctl does.
export async function parse(text, name) {
  return (await answer(await fetch(parser + '?name=' + encodeURIComponent(name), { method: 'POST', headers: headers({}), body: text }))).items;
}

// stream yields the messages of a call that goes on. It ends by an error, or when the other
// side ends it.
export async function* stream(method, request, signal) {
  const text = new TextEncoder().encode(JSON.stringify(request));
  const body = new Uint8Array(5 + text.length);
  new DataView(body.buffer).setUint32(1, text.length);
  body.set(text, 5);
  const response = await fetch(service + method, {
    method: 'POST', signal, body,
    headers: headers({ 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1' }),
  });
  if (!response.ok) {
    await answer(response);
  }
  const reader = response.body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const all = new Uint8Array(rest.length + value.length);
    all.set(rest);
    all.set(value, rest.length);
    rest = all;
    while (rest.length >= 5) {
      const size = new DataView(rest.buffer, rest.byteOffset).getUint32(1);
      if (rest.length < 5 + size) {
        break;
      }
      const message = JSON.parse(new TextDecoder().decode(rest.subarray(5, 5 + size)) || '{}');
      if (rest[0] & 2) { // the end of the stream, with an error if there was one
        if (message.error) {
          throw new Refusal(message.error.code, message.error.message);
        }
        return;
      }
      rest = rest.slice(5 + size);
      yield message;
    }
  }
}
