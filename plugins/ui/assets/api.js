// Calls of the agent's API, by the Connect protocol with JSON.

const service = '/plumb.api.v1.Agent/';

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
    method: 'POST', signal, headers: { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1' },
    body: JSON.stringify(request),
  }));
}

// parse has the agent read an intent file, as agentctl does.
export async function parse(text, name) {
  return (await answer(await fetch('/ui/parse?name=' + encodeURIComponent(name), { method: 'POST', body: text }))).items;
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
    headers: { 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1' },
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
