/** N of a network that is known to be `eip155:N` (CAIP-2, namespace eip155). */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
