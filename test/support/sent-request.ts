import { IncomingMessage } from "node:http";
import { Socket } from "node:net";

/** Makes a request in the form that a handler gets, without a connection. */
export function sentRequest(url: string, headers: Readonly<Record<string, string>> = {}, method = "POST") {
  const req = new IncomingMessage(new Socket());
  req.url = url;
  req.method = method;
  for (const [name, value] of Object.entries(headers)) {
    req.rawHeaders.push(name, value);
    req.headers[name.toLowerCase()] = value;
  }
  return req;
}
