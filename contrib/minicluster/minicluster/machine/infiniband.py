"""InfiniBand adapters: /sys/class/infiniband."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minicluster.machine.model import Hca, Machine

# Healthy values. Traffic has flowed; a port that has been up for days has seen a symbol error or two.
COUNTERS = {
    "VL15_dropped": 0,
    "excessive_buffer_overrun_errors": 0,
    "link_downed": 1,
    "link_error_recovery": 0,
    "local_link_integrity_errors": 0,
    "multicast_rcv_packets": 30412,
    "multicast_xmit_packets": 117,
    "port_rcv_constraint_errors": 0,
    "port_rcv_data": 918_230_114,
    "port_rcv_errors": 0,
    "port_rcv_packets": 3_301_772,
    "port_rcv_remote_physical_errors": 0,
    "port_rcv_switch_relay_errors": 0,
    "port_xmit_constraint_errors": 0,
    "port_xmit_data": 918_411_902,
    "port_xmit_discards": 0,
    "port_xmit_packets": 3_302_544,
    "port_xmit_wait": 20_455,
    "symbol_error": 2,
    "unicast_rcv_packets": 3_271_360,
    "unicast_xmit_packets": 3_302_427,
}
HW_COUNTERS = {
    "duplicate_request": 0,
    "implied_nak_seq_err": 0,
    "lifespan": 10,
    "local_ack_timeout_err": 0,
    "out_of_buffer": 0,
    "out_of_sequence": 0,
    "packet_seq_err": 0,
    "req_cqe_error": 0,
    "req_cqe_flush_error": 0,
    "req_remote_access_errors": 0,
    "req_remote_invalid_request": 0,
    "req_transport_retries_exceeded": 0,
    "resp_cqe_error": 0,
    "resp_cqe_flush_error": 0,
    "resp_local_length_error": 0,
    "resp_remote_access_errors": 0,
    "rnr_nak_retry_err": 0,
    "roce_adp_retrans": 0,
    "roce_adp_retrans_to": 0,
    "roce_slow_restart": 0,
    "rx_atomic_requests": 0,
    "rx_dct_connect": 0,
    "rx_icrc_encapsulated": 0,
    "rx_read_requests": 4411,
    "rx_write_requests": 90_812,
}
FOLDER = "sys/class/infiniband"


def render(machine: Machine) -> dict[str, bytes]:
    """Path below the node's folder → content."""
    files: dict[str, bytes] = {}
    for hca in machine.hcas:
        if hca.present:
            files |= {
                f"{FOLDER}/{hca.name}/{name}": f"{text}\n".encode() for name, text in _adapter(hca).items()
            }
    return files


def _adapter(hca: Hca) -> dict[str, str]:
    texts = {
        "fw_ver": "28.41.1000",
        "board_id": "MT_0000000838",
        "hca_type": "MT4129",
        "hw_rev": "0",
        "node_type": "1: CA",
        "node_desc": f"{hca.name} HCA",
        "node_guid": hca.guid,
        "sys_image_guid": hca.guid,
        "ports/1/state": hca.state,
        "ports/1/phys_state": hca.phys_state,
        "ports/1/rate": hca.rate,
        "ports/1/link_layer": hca.link_layer,
        "ports/1/lid": hex(0x40 + hca.index),
        "ports/1/sm_lid": "0x1",
    }
    texts |= {
        f"ports/1/counters/{name}": str(value + hca.counters.get(name, 0)) for name, value in COUNTERS.items()
    }
    texts |= {
        f"ports/1/hw_counters/{name}": str(value + hca.counters.get(name, 0))
        for name, value in HW_COUNTERS.items()
    }
    return texts
