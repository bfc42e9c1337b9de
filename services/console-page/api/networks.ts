import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { useAnswer } from "./use-answer.ts";

const PublicNetworks = createContext<readonly string[]>([]);
export const PublicNetworksProvider = PublicNetworks.Provider;

/** Asks once for the networks (CAIP-2) whose nodes are public. None are until the answer is there. */
export function useReadPublicNetworks(): readonly string[] {
  const { data } = useAnswer("api/v1/configured-names", {});
  return data?.public_networks ?? [];
}

export const useIsPublic = (network: string): boolean => useContext(PublicNetworks).includes(network);
