import { connect } from "node:net";

const PATIENCE_MS = 1000;

/**
 * Whether the Redis at this port has loaded its data, takes commands and is the process `pid`: another server may have
 * taken the port in the meantime. Speaks the protocol itself, since a client library would go on to reconnect.
 */
export function answers(port: number, pid: number): Promise<boolean> {
  return new Promise((resolve) => {
    let reply = "";
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\nINFO server\r\n"));
    const settle = (outcome: boolean) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.setTimeout(PATIENCE_MS, () => settle(false));
    socket.on("error", () => settle(false));
    socket.on("close", () => settle(false));
    socket.on("data", (chunk) => {
      reply += chunk.toString("latin1");
      if (reply.startsWith("-")) settle(false);
      const answered = /^process_id:(\d+)\r$/m.exec(reply)?.[1];
      if (answered !== undefined) settle(reply.startsWith("+PONG") && Number(answered) === pid);
    });
  });
}
