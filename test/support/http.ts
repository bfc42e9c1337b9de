import { type Agent, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { eventually } from "../../shared/dev/wait.ts";

export type Answer = {
  status: number;
  headers: IncomingMessage["headers"];
  body: Buffer;
  text: string;
  /** The body as JSON. */
  json: <Shape = Record<string, unknown>>() => Shape;
};

export type Sent = {
  method?: string;
  /** Sent as it stands. */
  path: string;
  /** Names and values by turns, so that a header can come twice; or an object. Host and Content-Length are added. */
  headers?: readonly string[] | Readonly<Record<string, string>>;
  /** A list of chunks goes out chunked. */
  body?: Buffer | string | readonly (Buffer | string)[];
  agent?: Agent;
  timeoutMs?: number;
};

/** One request to `host:port`, unchanged by any client library; its connection is closed unless `agent` keeps it. */
export function send(address: string, sent: Sent): Promise<Answer> {
  const { method = "POST", path, body, agent = false, timeoutMs = 60_000 } = sent;
  const { hostname, port } = new URL(`http://${address}`);
  const headers = allHeaders(address, method, sent);
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const req = request({ host: hostname, port: port || 80, method, path, headers, agent, signal }, (res) => {
      collect(res).then(resolve, reject);
    });
    req.on("error", reject);
    // Buffers only: with a string Node would write the headers in the string's encoding, and so change their bytes.
    for (const chunk of Array.isArray(body) ? body : [body])
      if (chunk !== undefined) req.write(Buffer.from(chunk));
    req.end();
  });
}

function allHeaders(address: string, method: string, { headers = [], body }: Sent): string[] {
  const given = Array.isArray(headers) ? [...headers] : Object.entries(headers).flat();
  const has = (name: string) => given.some((text, i) => i % 2 === 0 && text.toLowerCase() === name);
  const host = has("host") ? [] : ["Host", address];
  const unsized =
    Array.isArray(body) || has("content-length") || has("transfer-encoding") || method === "GET";
  const length = unsized
    ? []
    : ["Content-Length", String(Buffer.byteLength((body as string | Buffer) ?? ""))];
  return [...host, ...given, ...length];
}

async function collect(res: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of res) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const text = body.toString("utf8");
  return { status: res.statusCode ?? 0, headers: res.headers, body, text, json: () => JSON.parse(text) };
}

/**
 * Writes these bytes to `host:port`, each chunk once the one before has gone out, and resolves with all that came back
 * when the other side closes, or as soon as `enough` of it is there.
 */
export function sendRaw(
  address: string,
  chunks: Buffer | string | readonly (Buffer | string)[],
  options: Raw = {},
): Promise<string> {
  const { enough = () => false, timeoutMs = 60_000 } = options;
  const { hostname, port } = new URL(`http://${address}`);
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(Number(port || 80), hostname, () => {
      for (const chunk of Array.isArray(chunks) ? chunks : [chunks]) socket.write(chunk);
    });
    const settle = () => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(timeoutMs, () => {
      socket.destroy();
      reject(new Error(`no answer within ${timeoutMs} ms; so far: ${JSON.stringify(answer)}`));
    });
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
      if (enough(answer)) settle();
    });
    socket.on("close", settle);
    socket.on("error", (error) => (answer === "" ? reject(error) : settle()));
  });
}

type Raw = { enough?: (soFar: string) => boolean; timeoutMs?: number };

/** Whether something listens there. */
export function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const settle = (outcome: boolean) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.on("connect", () => settle(true));
    socket.on("error", () => settle(false));
  });
}

/**
 * A connection on which `bytes` went out, and whose own side stays open when the other has ended. `localAddress` is where it
 * comes from: any address of 127.0.0.0/8.
 */
export function openRaw(address: string, bytes: string, localAddress = "127.0.0.1"): OpenRaw {
  const { hostname, port } = new URL(`http://${address}`);
  const socket = connect({ host: hostname, port: Number(port), localAddress, allowHalfOpen: true });
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
  });
  socket.on("error", () => {}); // a reset: "close" follows
  socket.write(bytes);
  return {
    socket,
    received: () => received,
    async sendUntilReset(more) {
      const sending = setInterval(() => socket.write(more), 50);
      await eventually("the connection is gone", () => socket.destroyed, 5000).finally(() =>
        clearInterval(sending),
      );
    },
  };
}

export type OpenRaw = {
  socket: Socket;
  received: () => string;
  /** Sends on till the other side answers with a reset, as one does that no longer owns the connection. */
  sendUntilReset(more: string): Promise<void>;
};
