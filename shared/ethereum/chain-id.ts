/** Whether this is `eip155:N` (CAIP-2, namespace eip155), N in decimal and a number that JavaScript holds exactly. */
export function isEvmNetwork(text: string): text is `eip155:${number}` {
  return /^eip155:[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(chainIdOf(text));
}

/** N of a network that is known to be `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
