import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { messageOf } from "../platform/errors/app-error.ts";

/*
 * These ports lie below the range of outgoing connections. In that range, a client that keeps connecting to a server which
 * is being restarted may be given the server's own port, and the server cannot come back.
 */
const FIRST = 18_000;
const END = 32_000;
const TRIES = 100;
const BIND_TRIES = 5;

/**
 * A port of 127.0.0.1 that was free a moment ago: the preferred one if it is free. Another process may bind it first, so a
 * server that can be started again uses `onFreePort`.
 */
export async function freePort(preferred?: number): Promise<number> {
  if (preferred !== undefined && (await canListen(preferred))) return preferred;
  for (let i = 0; i < TRIES; i++) {
    const port = randomInt(FIRST, END);
    if (await canListen(port)) return port;
  }
  throw new Error(`no free port found between ${FIRST} and ${END}`);
}

/** Starts a server on a free port; on another one if the error says that the port is already in use. */
export async function onFreePort<Server>(start: (port: number) => Promise<Server>): Promise<Server> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (attempt === BIND_TRIES || !/already in use/i.test(messageOf(error))) throw error;
    }
  }
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
