# SPDX-License-Identifier: Apache-2.0
def pytest_configure(config):
    config.addinivalue_line("markers", "long: what takes long; pytest -m 'not long' leaves it out")
