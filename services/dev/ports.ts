import { freePort } from "../../shared/dev/free-port.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";

/**
 * Servers that `postern dev` starts, each with its usual port. 0 means that it has no usual port and takes any free one.
 * With --port-base, they get consecutive ports in this order. docs/dev.md has the same table.
 */
export const PLACES = {
  webhooks: { what: "the webhooks gateway", usual: 9090 },
  x402: { what: "the payment gateway", usual: 8402 },
  runner: { what: "the runner", usual: 8645 },
  webhooksProbes: { what: "the webhooks gateway's probes", usual: 0 },
  producerProbes: { what: "the producer's probes", usual: 0 },
  x402Probes: { what: "the payment gateway's probes", usual: 0 },
  pricingProbes: { what: "the pricing engine's probes", usual: 0 },
  pricingHttp: { what: "the pricing engine over HTTP", usual: 8404 },
  pricingGrpc: { what: "the pricing engine over gRPC", usual: 50_051 },
  rpc: { what: "the chain", usual: 8545 },
  facilitator: { what: "the facilitator", usual: 8546 },
  control: { what: "the devnet's control port", usual: 8547 },
  redis: { what: "Redis", usual: 0 },
  operator: { what: "the console", usual: 9300 },
  operatorProbes: { what: "the console's probes", usual: 0 },
  runnerProbes: { what: "the runner's probes", usual: 0 },
} as const;

export type Place = keyof typeof PLACES;

const ORDER = Object.keys(PLACES);

export type Ports = {
  /** Whether the user has chosen all ports with --port-base. */
  readonly chosen: boolean;
  /**
   * Returns the port for a server. With --port-base, it is the base plus the server's position in the table, and the
   * function throws `start.address_unavailable` if that port is taken. Without --port-base, it is the usual port, or
   * another free one if that is taken. It is 0 if the server may take any free port.
   */
  of(place: Place): Promise<number>;
  /** Ports of those servers that could not get their usual port, because it was taken. */
  readonly moved: ReadonlyMap<Place, number>;
};

export function createPorts(base: number | undefined): Ports {
  if (base === undefined) return usualPorts();
  return {
    chosen: true,
    moved: new Map(),
    async of(place) {
      const port = base + ORDER.indexOf(place);
      if ((await freePort(port)) === port) return port;
      const reason = [
        `127.0.0.1:${port} is in use, but --port-base ${base} needs it for ${PLACES[place].what}.`,
        `Choose another base (the ports up to base+${ORDER.length - 1} are used), or stop what listens there`,
      ].join(" ");
      throw new AppError("start.address_unavailable", { reason });
    },
  };
}

function usualPorts(): Ports {
  const moved = new Map<Place, number>();
  return {
    chosen: false,
    moved,
    async of(place) {
      const { usual } = PLACES[place];
      if (usual === 0) return 0;
      const port = await freePort(usual);
      if (port !== usual) moved.set(place, port);
      return port;
    },
  };
}
