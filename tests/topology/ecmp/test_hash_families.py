"""Hash families against vectors from outside, and what holds for all of them."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.ecmp import FAMILIES, HashSpec, Tuples, choose
from topology.ecmp.crc import CRC16_ARC, CRC16_CCITT, CRC32_CASTAGNOLI, CRC32_ETHERNET, crc_reflected
from topology.ecmp.spec import hash_values
from topology.ecmp.tuples import FIELDS, FIVE_TUPLE

FUNCTIONS = {
    "crc16-bisync": 3,
    "mixed-xor1": 4,
    "mixed-xor2": 5,
    "mixed-xor4": 6,
    "mixed-xor8": 7,
    "xor16": 8,
    "crc16-ccitt": 9,
    "crc32c-lo": 10,
    "crc32c-hi": 11,
}
HASHING = sorted(name for name, family in FAMILIES.items() if family.module)
LINEAR = sorted(name for name, family in FAMILIES.items() if family.linear)


def flow(saddr, daddr, sport, dport, proto):
    """One flow as columns."""
    numbers = (int(ipaddress.IPv4Address(saddr)), int(ipaddress.IPv4Address(daddr)), sport, dport, proto)
    return Tuples(*(np.array([number], dtype=np.uint32) for number in numbers))


@pytest.mark.parametrize(
    ("polynomial", "start", "final", "check"),
    [
        (CRC16_ARC, 0, 0, 0xBB3D),
        (CRC16_CCITT, 0, 0, 0x2189),
        (CRC32_CASTAGNOLI, 2**32 - 1, 2**32 - 1, 0xE3069283),
        (CRC32_ETHERNET, 2**32 - 1, 2**32 - 1, 0xCBF43926),
    ],
)
def test_crcs_have_their_catalogue_check_values(polynomial, start, final, check):
    """The check value of "123456789" of ARC, KERMIT, CRC-32C and CRC-32."""
    assert crc_reflected(b"123456789", polynomial, start) ^ final == check


@pytest.mark.parametrize(
    ("seed", "vectors"),
    [
        (
            0,
            {
                "crc16-bisync": 0x625A,
                "xor16": 0xD286,
                "crc16-ccitt": 0x3332,
                "crc32c-lo": 0x881C,
                "crc32c-hi": 0xB8DB,
            },
        ),
        (
            0x12345678,
            {
                "crc16-bisync": 0x14E4,
                "xor16": 0x96CA,
                "crc16-ccitt": 0x5C22,
                "crc32c-lo": 0xA643,
                "crc32c-hi": 0x94B1,
            },
        ),
    ],
)
def test_rtag7_vectors(seed, vectors):
    """10.0.0.1 to 10.0.1.2, UDP 0xC123 to 4791."""
    one = flow("10.0.0.1", "10.0.1.2", 0xC123, 4791, 17)

    found = {name: int(hash_values(HashSpec(f"rtag7-{name}", seed), one)[0]) for name in vectors}

    assert found == vectors


@pytest.mark.parametrize("preprocess", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rtag7_equals_the_oracle(oracle, tuples, name, preprocess):
    """Hash and next hop of 60 random flows, with seed, offset, 16 and 10 bits, equal an independent restatement."""
    vectors, seed, flows = oracle("ecmp_vectors"), 0xCAFE1234, tuples(60, 4)
    rows = zip(flows.saddr, flows.daddr, flows.sport, flows.dport, flows.proto, strict=True)
    expected = [
        vectors.rtag7(
            vectors.bin_words(vectors.ipv4_bins(*map(int, row)), 0x1FF0, seed, preprocess), FUNCTIONS[name]
        )
        for row in rows
    ]
    spec = HashSpec(f"rtag7-{name}", seed, preprocess=preprocess)

    assert hash_values(spec, flows).tolist() == expected
    for width in (0, 10):
        picked = choose(replace(spec, offset=5, width=width), flows, (1,) * 12)
        assert picked.tolist() == [vectors.ecmp_index(value, 5, 12, width == 0) for value in expected]


@pytest.mark.parametrize(
    ("source", "target", "addresses", "with_ports"),
    [
        (("66.9.149.187", 2794), ("161.142.100.80", 1766), 0x323E8FC2, 0x51CCC178),
        (("199.92.111.2", 14230), ("65.69.140.83", 4739), 0xD718262A, 0xC626B0EA),
    ],
)
def test_toeplitz_vectors(source, target, addresses, with_ports):
    """The verification suite of Microsoft's RSS hash."""
    one = flow(source[0], target[0], source[1], target[1], 6)
    ip = ("src_ip", "dst_ip")

    assert hash_values(HashSpec("toeplitz", fields=ip), one)[0] == addresses
    assert hash_values(HashSpec("toeplitz", fields=(*ip, "sport", "dport")), one)[0] == with_ports


def test_generic_crc_is_that_of_the_packets_bytes():
    """CRC-32 from all ones over the fields' bytes in the order of a packet, as zlib has it."""
    import zlib

    one = flow("10.0.0.1", "10.0.1.2", 0xC123, 4791, 17)
    data = bytes([10, 0, 0, 1, 10, 0, 1, 2, 17]) + (0xC123).to_bytes(2, "big") + (4791).to_bytes(2, "big")

    assert hash_values(HashSpec("crc32", 2**32 - 1), one)[0] ^ 0xFFFFFFFF == zlib.crc32(data)


@pytest.mark.parametrize("name", HASHING)
def test_values_fill_their_bits_evenly(tuples, name):
    """Random flows: no value beyond the width, and 7 next hops share within 5 standard deviations."""
    flows, family = tuples(20_000, 1), FAMILIES[name]

    assert int(hash_values(HashSpec(name, 3), flows).max()) < 2**family.bits
    shares = np.bincount(choose(HashSpec(name, 3), flows, (1,) * 7), minlength=7) / len(flows)
    assert shares == pytest.approx(np.full(7, 1 / 7), abs=5 * np.sqrt(6 / 49 / len(flows)))


@pytest.mark.parametrize("name", HASHING)
def test_fields_that_are_left_out_do_not_count(tuples, name):
    """Flows that differ in one field hash alike without it, and mostly differ with it."""
    one, other = tuples(400, 1, proto=(17,), dport=4791), tuples(400, 2, proto=(17,), dport=4791)
    usable = [
        field
        for field in ("src_ip", "dst_ip", "sport", "dst_qp")
        if not name.startswith("linux") or field != "dst_qp"
    ]
    column = {"src_ip": "saddr", "dst_ip": "daddr"}
    for field in usable:
        kept = tuple(each for each in FIELDS if each != field and (each in usable or each in FIVE_TUPLE))
        changed = replace(one, **{column.get(field, field): getattr(other, column.get(field, field))})
        if name != "linux-multipath":
            without = HashSpec(name, 5, fields=kept)
            assert np.array_equal(hash_values(without, one), hash_values(without, changed))
        spec = HashSpec(name, 5, fields=(*kept, field) if name != "linux-multipath" else FIVE_TUPLE)
        assert np.mean(hash_values(spec, one) != hash_values(spec, changed)) > 0.4


@pytest.mark.parametrize("name", LINEAR)
def test_a_seed_is_only_a_constant_to_linear_hashes(tuples, name):
    """h(x) ^ h(0) does not depend on the seed, but for families that say so."""
    flows = tuples(200, 3)
    first, second = (hash_values(HashSpec(name, seed), flows) for seed in (1, 0xBEEF1234))

    assert (len(np.unique(first ^ second)) == 1) != FAMILIES[name].keyed


@pytest.mark.parametrize("name", ["ideal", "linux-multipath", "linux-multipath-fields"])
def test_a_seed_is_another_function_elsewhere(tuples, name):
    """Next hops under two seeds are independent: a quarter of 4 agree."""
    flows = tuples(8000, 3)
    first, second = (choose(HashSpec(name, seed), flows, (1,) * 4) for seed in (1, 2))

    assert np.mean(first == second) == pytest.approx(0.25, abs=0.03)


def test_the_destination_qp_counts_in_roce_alone(tuples):
    """TCP, and UDP to other ports, have no such header."""
    spec = HashSpec("crc32c", 1, fields=(*FIVE_TUPLE, "dst_qp"))
    for proto, dport, counts in ((17, 4791, True), (17, 53, False), (6, 4791, False)):
        flows = tuples(50, 1, proto=(proto,), dport=dport)
        without = replace(flows, dst_qp=None)
        assert np.array_equal(hash_values(spec, flows), hash_values(spec, without)) != counts


def test_long_columns_hash_as_short_ones(tuples):
    """Blocks change nothing."""
    flows = tuples(40_000, 6)
    for name in ("linux-multipath-fields", "crc16"):
        whole = choose(HashSpec(name, 9), flows, (3, 1))
        assert np.array_equal(
            whole[35_000:], choose(HashSpec(name, 9), flows.take(slice(35_000, None)), (3, 1))
        )


@given(
    family=st.sampled_from([name for name in FAMILIES if not name.startswith("linux") and name != "spray"]),
    seed=st.integers(0, 2**32 - 1),
    offset=st.integers(0, 15),
    fields=st.sets(st.sampled_from(FIELDS), min_size=1),
    selection=st.sampled_from(["", "modulo", "threshold", "resilient"]),
    width=st.integers(0, 16),
    lag=st.booleans(),
)
def test_a_spec_survives_json(family, seed, offset, fields, selection, width, lag):
    """to_json and from_json are inverse, and defaults are not written."""
    spec = HashSpec(
        family,
        seed,
        offset,
        tuple(fields),
        selection,
        width,
        64 if selection == "resilient" else 0,
        member=HashSpec("crc16", 4) if lag else None,
    )

    assert HashSpec.from_json(spec.to_json()) == spec
    assert HashSpec("crc16", 4).to_json() == {"family": "crc16", "seed": 4}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"family": "md5"}, "known: linux-multipath"),
        ({"family": "crc16", "seed": 2**32}, "32 bits"),
        ({"family": "crc16", "offset": 16}, "no offset 16"),
        ({"family": "linux-multipath", "offset": 1}, "no offset 1"),
        ({"family": "crc16", "width": 17}, "width 17"),
        ({"family": "crc16", "fields": ["vlan"]}, "vlan"),
        ({"family": "crc16", "fields": []}, "name some"),
        ({"family": "crc16", "selection": "best"}, "modulo, threshold, resilient"),
        ({"family": "crc16", "selection": "resilient"}, "buckets"),
        ({"family": "crc16", "buckets": 8}, "buckets"),
        ({"family": "crc16", "preprocess": True}, "RTAG7"),
        ({"family": "linux-multipath", "fields": ["sport"]}, "linux-multipath-fields"),
        ({"family": "linux-multipath-fields", "fields": ["dst_qp"]}, "does not hash"),
        ({"family": "crc16", "speed": 3}, "known: family"),
        ({"seed": 3}, "not a hash"),
    ],
)
def test_parameters_that_a_family_lacks_are_refused(values, said):
    """One line says which, and what there is."""
    with pytest.raises(InputError, match=said):
        HashSpec.from_json(values)


def test_spraying_has_no_next_hop(tuples):
    """A flow's packets go everywhere."""
    with pytest.raises(InputError, match="every packet"):
        choose(HashSpec("spray"), tuples(2), (1, 1))
