import { randomInt } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import { createServer } from "node:net";
import { messageOf } from "../platform/errors/app-error.ts";

/*
 * These ports are below the range from which the system takes the ports of outgoing connections. With a port of that
 * range, a client that keeps connecting to a restarting server could get the server's own port. The server could then
 * not listen again.
 */
const FIRST = 18_000;
const END = 32_000;
const TRIES = 100;
const BIND_TRIES = 5;

/** Returns the preferred port of 127.0.0.1 if it is free, else a port reserved by `freePorts`. */
export async function freePort(preferred?: number): Promise<number> {
  if (preferred !== undefined && (await canListen(preferred))) return preferred;
  return freePorts(1);
}

/**
 * Reserves `count` consecutive free ports on 127.0.0.1 and returns the first. No other call of this function, in any
 * process, gets these ports until this process ends, so a server can restart on them. A program that does not use this
 * function may still bind one of them. In that case `onFreePort` tries another port.
 */
export async function freePorts(count: number): Promise<number> {
  for (let i = 0; i < TRIES; i++) {
    const first = randomInt(FIRST, END - count);
    if (await reserve(Array.from({ length: count }, (_, nth) => first + nth))) return first;
  }
  throw new Error(`no free port found between ${FIRST} and ${END}`);
}

/** Starts a server on a free port. Tries another port if the error says that the port is already in use. */
export async function onFreePort<Server>(start: (port: number) => Promise<Server>): Promise<Server> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (attempt === BIND_TRIES || !/already in use/i.test(messageOf(error))) throw error;
    }
  }
}

/**
 * Reserves the ports by binding the UDP ports of the same numbers. The servers use only TCP, so they can still bind
 * their ports. The UDP ports are free again when this process ends.
 */
async function reserve(ports: readonly number[]): Promise<boolean> {
  const held = ports.map(() => createSocket("udp4").unref());
  const isFree = await Promise.all(held.map((socket, i) => isHeld(socket, ports[i] as number)));
  if (isFree.every(Boolean)) return true;
  for (const socket of held) socket.close();
  return false;
}

function isHeld(socket: Socket, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once("error", () => resolve(false));
    socket.bind({ port, address: "127.0.0.1", exclusive: true }, () => resolve(canListen(port)));
  });
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
