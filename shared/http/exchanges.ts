import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

type UnderWay = { last: IncomingMessage; unanswered: Set<ServerResponse> };

/**
 * What is under way on each connection of a server. A client may send on before it is answered (RFC 9112, section 9.3.2),
 * so there may be several, and whoever writes to the socket itself must know of them.
 */
export class Exchanges {
  readonly #bySocket = new WeakMap<Duplex, UnderWay>();

  begin(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req;
    const known = this.#bySocket.get(socket);
    const underWay = known ?? { last: req, unanswered: new Set() };
    if (known === undefined) this.#bySocket.set(socket, underWay);
    underWay.last = req;
    underWay.unanswered.add(res);
    res.once("close", () => underWay.unanswered.delete(res));
  }

  /** The request of this connection that has begun and is not whole yet. */
  unfinished(socket: Duplex): IncomingMessage | undefined {
    const last = this.#bySocket.get(socket)?.last;
    return last === undefined || last.complete ? undefined : last;
  }

  /** Resolves when every request that has begun is answered, or its connection is gone. */
  async answered(socket: Duplex): Promise<void> {
    const waiting = [...(this.#bySocket.get(socket)?.unanswered ?? [])];
    await Promise.all(waiting.map((res) => new Promise((resolve) => res.once("close", resolve))));
  }
}
