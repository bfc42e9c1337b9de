import { type Agent, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { eventually } from "../../shared/dev/wait.ts";

export type Answer = {
  status: number;
  headers: IncomingMessage["headers"];
  body: Buffer;
  text: string;
  /** Parses the body as JSON. */
  json: <Shape = Record<string, unknown>>() => Shape;
};

export type Sent = {
  method?: string;
  /** Sent without changes. */
  path: string;
  /**
   * Headers as an object, or as alternating names and values, so that a header can occur twice. Host and
   * Content-Length are added.
   */
  headers?: readonly string[] | Readonly<Record<string, string>>;
  /** A list of chunks is sent with chunked encoding. */
  body?: Buffer | string | readonly (Buffer | string)[];
  agent?: Agent;
  timeoutMs?: number;
};

type Check = (method: string, path: string, answer: Answer) => string | undefined;

const checks = new Map<string, Check>();

/**
 * Adds a check of each answer that `send` gets from `host:port`. `send` throws the error of the check. Returns a
 * function that stops the checks.
 */
export function checkAnswers(address: string, check: Check): () => void {
  checks.set(address, check);
  return () => {
    if (checks.get(address) === check) checks.delete(address);
  };
}

/** Sends one request to `host:port`, unchanged by any client library. Its connection is closed unless `agent` keeps it. */
export async function send(address: string, sent: Sent): Promise<Answer> {
  const answer = await exchange(address, sent);
  const problem = checks.get(address)?.(sent.method ?? "POST", sent.path, answer);
  if (problem !== undefined) throw new Error(problem);
  return answer;
}

function exchange(address: string, sent: Sent): Promise<Answer> {
  const { method = "POST", path, body, agent = false, timeoutMs = 60_000 } = sent;
  const { hostname, port } = new URL(`http://${address}`);
  const headers = allHeaders(address, method, sent);
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const req = request({ host: hostname, port: port || 80, method, path, headers, agent, signal }, (res) => {
      collect(res).then(resolve, reject);
    });
    req.on("error", reject);
    // The chunks must be Buffers: with a string Node would write the headers in the string's encoding, and so change
    // their bytes.
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
 * Writes these bytes to `host:port`, each chunk after the previous one was written. Resolves with the answer when the
 * server closes the connection, or as soon as the answer satisfies `enough`.
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

/** Returns whether a server listens at this port. */
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
 * Opens a connection and writes `bytes`. The client's side stays open when the server has ended its side.
 * `localAddress` is the source: any address of 127.0.0.0/8.
 */
export function openRaw(address: string, bytes: string, localAddress = "127.0.0.1"): OpenRaw {
  const { hostname, port } = new URL(`http://${address}`);
  const socket = connect({ host: hostname, port: Number(port), localAddress, allowHalfOpen: true });
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
  });
  socket.on("error", () => {}); // after a reset, "close" follows
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
  /** Sends until the server resets the connection. A server resets a connection that it no longer has. */
  sendUntilReset(more: string): Promise<void>;
};
