import { type AddressInfo, createServer, connect as dial, type Socket } from "node:net";

/** What the proxy does with one command: other words for Redis, or a cut connection. */
export type Fault =
  /** Redis gets these words instead; its reply goes back in their place. */
  | { kind: "rewrite"; words: string[] }
  /** Redis runs it; the connection breaks before the reply. */
  | { kind: "lose-reply" }
  /** Redis never sees it; the connection breaks. */
  | { kind: "lose-command" }
  /** Redis runs it; neither this reply nor any later one of this connection ever arrives. */
  | { kind: "hang" };

export type RedisProxy = {
  url: string;
  /** Asked for each command, in order; undefined lets it pass. */
  onCommand: (words: readonly string[]) => Fault | undefined;
  close(): Promise<void>;
};

/** Stands between a client and a real Redis and misbehaves on command; everything it says is said by Redis itself. */
export async function startRedisProxy(redisUrl: string): Promise<RedisProxy> {
  const target = Number(new URL(redisUrl).port);
  const sockets = new Set<Socket>();
  const proxy: RedisProxy = { url: "", onCommand: () => undefined, close: async () => {} };
  const server = createServer((client) => {
    sockets.add(client);
    serve(client, target, proxy);
    client.on("close", () => sockets.delete(client));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  proxy.url = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
  proxy.close = () =>
    new Promise((resolve) => {
      for (const socket of sockets) socket.destroy();
      server.close(() => resolve());
    });
  return proxy;
}

function serve(client: Socket, target: number, proxy: RedisProxy): void {
  const redis = dial(target, "127.0.0.1");
  let pending = Buffer.alloc(0);
  let hung = false;
  const cut = () => {
    client.destroy();
    redis.destroy();
  };
  const apply = (raw: Buffer, words: string[]): void => {
    const fault = proxy.onCommand(words);
    switch (fault?.kind) {
      case undefined:
        redis.write(raw);
        return;
      case "rewrite":
        redis.write(encode(fault.words));
        return;
      case "lose-command":
        cut();
        return;
      case "lose-reply":
        hung = true;
        redis.write(raw);
        redis.once("data", cut);
        return;
      case "hang":
        hung = true;
        redis.write(raw);
    }
  };
  client.on("data", (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    for (let next = parse(pending); next !== undefined; next = parse(pending)) {
      const raw = pending.subarray(0, next.bytes);
      pending = pending.subarray(next.bytes);
      apply(Buffer.from(raw), next.words);
    }
  });
  redis.on("data", (chunk) => hung || client.write(chunk));
  for (const socket of [client, redis]) {
    socket.on("error", cut);
    socket.on("close", cut);
  }
}

/** The first whole command in the buffer: RESP arrays of bulk strings, as clients send them. */
function parse(buffer: Buffer): { words: string[]; bytes: number } | undefined {
  let at = 0;
  const line = (): string | undefined => {
    const end = buffer.indexOf("\r\n", at);
    if (end === -1) return undefined;
    const text = buffer.toString("latin1", at, end);
    at = end + 2;
    return text;
  };
  const head = line();
  if (head === undefined) return undefined;
  const words: string[] = [];
  for (let left = Number(head.slice(1)); left > 0; left--) {
    const size = line();
    if (size === undefined || buffer.length < at + Number(size.slice(1)) + 2) return undefined;
    words.push(buffer.toString("latin1", at, at + Number(size.slice(1))));
    at += Number(size.slice(1)) + 2;
  }
  return { words, bytes: at };
}

function encode(words: readonly string[]): string {
  return `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;
}
